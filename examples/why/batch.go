// Ten values in batches of four, or of what has come 2 s after the first.
package main

import (
	"fmt"
	"strings"
	"time"
)

func batch() {
	values := make(chan int)
	go func() {
		defer close(values)
		for i := 1; i <= 10; i++ {
			values <- i
		}
	}()
	batches := make(chan []int)
	go func() {
		defer close(batches)
		for value := range values {
			batch, late := []int{value}, time.After(2*time.Second)
		fill:
			for len(batch) < 4 {
				select {
				case value, ok := <-values:
					if !ok {
						break fill
					}
					batch = append(batch, value)
				case <-late:
					break fill
				}
			}
			batches <- batch
		}
	}()
	var sizes []string
	for batch := range batches {
		sizes = append(sizes, fmt.Sprint(len(batch)))
	}
	fmt.Println(strings.Join(sizes, " "))
}
