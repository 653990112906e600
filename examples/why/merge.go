// Three sources of 100 values each, read as one.
package main

import (
	"fmt"
	"sync"
)

func merge() {
	merged := make(chan int)
	var sources sync.WaitGroup
	for i := 0; i < 3; i++ {
		sources.Add(1)
		go func() {
			defer sources.Done()
			for v := 1; v <= 100; v++ {
				merged <- v
			}
		}()
	}
	go func() {
		sources.Wait()
		close(merged)
	}()
	n, sum := 0, 0
	for v := range merged {
		n, sum = n+1, sum+v
	}
	fmt.Printf("%d\t%d\n", n, sum)
}
