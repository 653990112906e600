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
    # A signal to this shell ends wait too early. A program that has ended already may be gone, but wait knows its status.
    while wait "$pid"; status=$?; kill -0 "$pid" 2>/dev/null; do :; done
    echo "$status" >"$dir/$id.new" && mv "$dir/$id.new" "$dir/$id.status"
  ) &
}

started=
while read -r id; do
  [ "$id" != end ] || break
  start "$id"
  started="$started $id/$!"
done

for one in $started; do
  id=$dir/${one%/*}
  # The last program may have no process id yet. It would run on, and `wait` would wait for it.
  until [ -e "$id.pid" ] || ! kill -0 "${one#*/}" 2>/dev/null; do sleep 0.1; done
  [ ! -e "$id.pid" ] || [ -e "$id.status" ] || kill -KILL "$(cat "$id.pid")" 2>/dev/null
done
wait
rm -rf "$dir"
