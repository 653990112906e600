// A bug: the channel is never closed, so its reader waits for ever.
package main

import "fmt"

func bug() {
	values := make(chan int)
	go func() { values <- 1 }()
	for v := range values {
		fmt.Println(v)
	}
}
