// One source of values; two readers get all of them, and the slower one sets the pace.
package main

import (
	"fmt"
	"time"
)

func topics() {
	reader := func(ms time.Duration) (chan<- int, <-chan int) {
		values, result := make(chan int), make(chan int, 1)
		go func() {
			sum := 0
			for v := range values {
				sum += v
				time.Sleep(ms * time.Millisecond)
			}
			result <- sum
		}()
		return values, result
	}
	fast, fastSum := reader(0)
	slow, slowSum := reader(2)
	for v := 1; v <= 5; v++ {
		fast <- v
		slow <- v
	}
	close(fast)
	close(slow)
	fmt.Printf("%d\t%d\n", <-fastSum, <-slowSum)
}
