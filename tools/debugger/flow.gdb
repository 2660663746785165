set pagination off
set breakpoint pending on
break flow.cu:18
break flow.cu:32
run
info locals
next
next
next
continue
info locals
continue
info locals
continue
info locals
delete 1
continue
info locals
kill
quit
