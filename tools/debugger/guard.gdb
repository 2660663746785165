set pagination off
set breakpoint pending on
break guard.cu:12
run
info locals
continue
info locals
continue
info locals
continue
info locals
kill
quit
