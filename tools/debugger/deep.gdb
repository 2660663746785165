set pagination off
set breakpoint pending on
break deep.cu:4
run
backtrace
step
info locals
up
info locals
info args
up
info args
up
info locals
delete
frame 0
finish
step
info locals
finish
finish
next
info locals
kill
quit
