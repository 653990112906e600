// Programs that move values between stages.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"
)

type event struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Value int    `json:"value"`
}

func eachLine(path string, f func(line []byte)) {
	file, err := os.Open(path)
	check(err)
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		f(lines.Bytes())
	}
	check(lines.Err())
}

func stages(path string) {
	decoded, changed, encoded := make(chan map[string]any, 100), make(chan event, 100), make(chan []byte, 100)
	go func() {
		eachLine(path, func(line []byte) {
			var value map[string]any
			check(json.Unmarshal(line, &value))
			decoded <- value
		})
		close(decoded)
	}()
	go func() {
		for value := range decoded {
			if n := int(value["value"].(float64)); n%2 == 0 {
				changed <- event{int(value["id"].(float64)), value["name"].(string), n * 2}
			}
		}
		close(changed)
	}()
	go func() {
		for value := range changed {
			text, err := json.Marshal(value)
			check(err)
			encoded <- text
		}
		close(encoded)
	}()
	n, bytes := 0, 0
	for text := range encoded {
		n, bytes = n+1, bytes+len(text)
	}
	fmt.Println(n, bytes)
}

func mix(n int) {
	out, inputs, sum := make(chan int), make([]chan int, 1000), 0
	for i := range inputs {
		input := make(chan int)
		inputs[i] = input
		go func() {
			for value := range input {
				out <- value
			}
		}()
	}
	go func() {
		for i := 1; i <= n; i++ {
			inputs[i*7919%1000] <- i
		}
	}()
	for i := 0; i < n; i++ {
		sum += <-out
	}
	fmt.Println(sum)
}

func fan(n int) {
	jobs, results, sum := make(chan int), make(chan int), 0
	for i := 0; i < 100; i++ {
		go func() {
			for job := range jobs {
				results <- job * 2
			}
		}()
	}
	go func() {
		for i := 1; i <= n; i++ {
			jobs <- i
		}
		close(jobs)
	}()
	for i := 0; i < n; i++ {
		sum += <-results
	}
	fmt.Println(sum)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func words(path string) {
	counts := map[string]int{}
	eachLine(path, func(line []byte) {
		for i := 0; i < len(line); {
			from := i
			for i < len(line) && isLetter(line[i]) {
				i++
			}
			if i > from {
				counts[string(line[from:i])]++
			} else {
				i++
			}
		}
	})
	list := make([]string, 0, len(counts))
	for word := range counts {
		list = append(list, word)
	}
	sort.Slice(list, func(a, b int) bool {
		x, y := counts[list[a]], counts[list[b]]
		return x > y || x == y && list[a] < list[b]
	})
	for i := 0; i < len(list) && i < 20; i++ {
		fmt.Println(counts[list[i]], list[i])
	}
}

func crawl(n int, url string) {
	var lock sync.Mutex
	bytes := int64(0)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	begin := make(chan int)
	go func() {
		for i := 1; i <= n; i++ {
			if i > 1 && i%100 == 1 {
				time.Sleep(100 * time.Millisecond)
			}
			begin <- i
		}
	}()
	each(n, 8, func(int) {
		answer, err := client.Get(fmt.Sprintf("%s?%d", url, <-begin))
		check(err)
		size, err := io.Copy(io.Discard, answer.Body)
		check(err)
		check(answer.Body.Close())
		lock.Lock()
		bytes += size
		lock.Unlock()
	})
	fmt.Println(bytes)
}
