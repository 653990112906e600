# background.sh DIR: for each line of its input, a name, starts the program of the script DIR/NAME.sh. At the end of the
# input, also when the program that writes it was killed, it kills all programs it has started and removes DIR.
dir=$1
trap : INT TERM HUP # Ctrl-C ends the writer; this process then sees the end of its input

# start ID: runs a program. Its process id, its output and at last its status are files in DIR.
start() {
  id=$1
  (
    sh "$dir/$id.sh" </dev/null >"$dir/$id.out" 2>&1 &
    pid=$!
    exec 2>/dev/null # the shell would report here that the program was killed
    echo "$pid" >"$dir/$id.new" && mv "$dir/$id.new" "$dir/$id.pid"
    wait "$pid" # also if the program has ended already, since the shell then still knows its status
    status=$?
    while kill -0 "$pid" 2>/dev/null; do wait "$pid"; status=$?; done # a signal to this shell ends wait too early
    echo "$status" >"$dir/$id.new" && mv "$dir/$id.new" "$dir/$id.status"
  ) &
}

while read -r id; do
  [ "$id" != end ] || break
  start "$id"
done

for file in "$dir"/*.pid; do
  id=${file%.pid}
  [ ! -e "$file" ] || [ -e "$id.status" ] || kill -KILL "$(cat "$file")" 2>/dev/null
done
wait
rm -rf "$dir"
