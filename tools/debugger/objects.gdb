set pagination off
set breakpoint pending on
break objects.cu:14
break objects.cu:34
run
cuda thread 3
info locals
info args
delete 1
continue
cuda thread 3
info locals
info args
next
print d
print shared[3]
print q
kill
quit
