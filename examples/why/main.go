// The programs of docs/why.md in Go, in one executable: go build -o why *.go && ./why limit
package main

import "os"

func main() {
	programs := map[string]func(){
		"limit": limit, "first": first, "timeout": timeout, "retry": retry, "stages": stages, "merge": merge,
		"failing": failing, "batch": batch, "topics": topics, "commands": commands,
		"ctrl_c": ctrlC, "crash": crash, "bug": bug,
	}
	programs[os.Args[1]]()
}
