// The programs of make bench-programs in Go: main NAME ARGUMENT...
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"sync"
	"time"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Calls f with 1 to n, `at` calls at a time.
func each(n, at int, f func(i int)) {
	var wait sync.WaitGroup
	jobs := make(chan int)
	for i := 0; i < at; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range jobs {
				f(i)
			}
		}()
	}
	for i := 1; i <= n; i++ {
		jobs <- i
	}
	close(jobs)
	wait.Wait()
}

func logs(path string) {
	file, err := os.Open(path)
	check(err)
	counts := map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		end := 0
		for end < len(line) && line[end] != ' ' {
			end++
		}
		if end > 0 {
			counts[string(line[:end])]++
		}
	}
	check(lines.Err())
	keys := make([]string, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool {
		a, b := keys[i], keys[j]
		if counts[a] != counts[b] {
			return counts[a] > counts[b]
		}
		return a < b
	})
	for i := 0; i < 20 && i < len(keys); i++ {
		fmt.Printf("%8d  %s\n", counts[keys[i]], keys[i])
	}
}

func commands(n int) {
	var lock sync.Mutex
	ok := 0
	each(n, 8, func(int) {
		err := exec.Command("true").Run()
		lock.Lock()
		if err == nil {
			ok++
		}
		lock.Unlock()
	})
	fmt.Println(ok)
}

func proxy(port string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	for {
		client, err := listener.Accept()
		check(err)
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", "127.0.0.1:"+port)
			check(err)
			defer server.Close()
			done := make(chan bool)
			go func() {
				_, _ = io.Copy(client, server)
				_ = client.(*net.TCPConn).CloseWrite()
				done <- true
			}()
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
			<-done
		}()
	}
}

func sumJSON(path string) {
	file, err := os.Open(path)
	check(err)
	sum, n := 0.0, 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var row map[string]interface{}
		check(json.Unmarshal(lines.Bytes(), &row))
		sum += row["value"].(float64)
		n++
	}
	fmt.Printf("%d %.0f\n", n, sum)
}

func actors(n int) {
	inboxes, total := make([]chan int, n), make(chan int, 100)
	for i := range inboxes {
		inbox := make(chan int)
		inboxes[i] = inbox
		go func() {
			sum := 0
			for j := 0; j < 10; j++ {
				sum += <-inbox
			}
			total <- sum
		}()
	}
	go func() {
		for message := 1; message <= 10; message++ {
			for _, inbox := range inboxes {
				inbox <- message
			}
		}
	}()
	sum := 0
	for i := 0; i < n; i++ {
		sum += <-total
	}
	fmt.Println(sum)
}

func timers(n int) {
	list, fired, sum := make([]*time.Timer, n+1), make(chan int, 100), 0
	for i := 1; i <= n; i++ {
		list[i] = time.AfterFunc(time.Duration(2000+i*7919%1000)*time.Millisecond, func() { fired <- i })
	}
	for i := 1; i <= n; i++ {
		if i%10 != 0 {
			list[i].Stop()
		}
	}
	for i := 0; i < n/10; i++ {
		sum += <-fired
	}
	fmt.Println(sum)
}

func retries(n int) {
	var lock sync.Mutex
	sum := 0
	each(n, 100, func(i int) {
		for try := 0; try < 3; try++ {
			limit, cancel := context.WithTimeout(context.Background(), time.Minute)
			result := make(chan error, 1)
			go func(failing bool) {
				if failing {
					result <- errors.New("try again")
				} else {
					result <- nil
				}
			}(i%10 == 0 && try == 0)
			var err error
			select {
			case err = <-result:
			case <-limit.Done():
				err = limit.Err()
			}
			cancel()
			if err == nil {
				lock.Lock()
				sum += i
				lock.Unlock()
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	fmt.Println(sum)
}

func requests(n int, url string) {
	var lock sync.Mutex
	bytes := 0
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	each(n, 64, func(int) {
		response, err := client.Get(url)
		check(err)
		body, err := io.ReadAll(response.Body)
		check(err)
		response.Body.Close()
		lock.Lock()
		bytes += len(body)
		lock.Unlock()
	})
	fmt.Println(bytes)
}

func hello() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	check(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello")
	})))
}

func main() {
	if os.Args[1] == "hello" {
		hello()
	}
	if os.Args[1] == "chat" {
		chat()
	}
	n, _ := strconv.Atoi(os.Args[2])
	switch os.Args[1] {
	case "logs":
		logs(os.Args[2])
	case "commands":
		commands(n)
	case "proxy":
		proxy(os.Args[2])
	case "json":
		sumJSON(os.Args[2])
	case "actors":
		actors(n)
	case "timers":
		timers(n)
	case "retries":
		retries(n)
	case "requests":
		requests(n, os.Args[3])
	case "stages":
		stages(os.Args[2])
	case "mix":
		mix(n)
	case "fan":
		fan(n)
	case "words":
		words(os.Args[2])
	case "crawl":
		crawl(n, os.Args[3])
	case "files":
		files(os.Args[2])
	case "tail":
		m, _ := strconv.Atoi(os.Args[3])
		tail(os.Args[2], m)
	}
}
