set pagination off
set breakpoint pending on
break spill.cu:86
run
info locals
continue
info locals
delete
break spill.cu:88
continue
info locals
kill
quit
