set pagination off
set breakpoint pending on
break oob.cu:9
break oob.cu:17
run
backtrace
info registers R0 R1 R4
continue
info args
next
backtrace
kill
quit
