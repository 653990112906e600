// A worker that must tidy up; then Ctrl-C.
package main

import (
	"fmt"
	"time"
)

func ctrlC() {
	done := make(chan bool)
	go func() {
		defer close(done)
		defer fmt.Println("tidied up")
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}()
	<-done
}
