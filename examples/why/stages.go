// 1,000 values through two stages; when eight wait for the second one, the first waits.
package main

import "fmt"

func stages() {
	numbers, squares := make(chan int, 8), make(chan int, 8)
	go func() {
		defer close(numbers)
		for i := 1; i <= 1000; i++ {
			numbers <- i
		}
	}()
	go func() {
		defer close(squares)
		for n := range numbers {
			squares <- n * n
		}
	}()
	sum := 0
	for n := range squares {
		sum += n
	}
	fmt.Println(sum)
}
