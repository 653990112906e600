// main URL N AT_ONCE: N requests, or a stream if N is 0. Prints how many bytes came.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

func main() {
	url := os.Args[1]
	n, _ := strconv.Atoi(os.Args[2])
	atOnce, _ := strconv.Atoi(os.Args[3])
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}
	var size atomic.Int64
	get := func(whole bool) {
		response, err := client.Get(url)
		if err != nil {
			panic(err)
		}
		defer response.Body.Close()
		if !whole {
			count, _ := io.Copy(io.Discard, response.Body)
			size.Add(count)
			return
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			panic(err)
		}
		size.Add(int64(len(body)))
	}
	if n == 0 {
		get(false)
	}
	jobs := make(chan bool)
	var workers sync.WaitGroup
	for i := 0; i < atOnce; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for range jobs {
				get(true)
			}
		}()
	}
	for i := 0; i < n; i++ {
		jobs <- true
	}
	close(jobs)
	workers.Wait()
	fmt.Println(size.Load())
}
