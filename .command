cd '.'
ls tests/*.lua tests/*/*.lua bench/*.lua
