set pagination off
set breakpoint pending on
break loop.cu:19
break loop.cu:6
break loop.cu:26
run
info locals
continue
info locals
next
next
next
info locals
delete 1
continue
backtrace
info locals
continue
info locals
delete 2
continue
info locals
continue
info locals
kill
quit
