// Yardstick holds what bench/gateway.py needs beside a gateway: a bare reverse proxy to compare it
// with, a backend that costs next to nothing, and a load generator. Standard library only.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fail("usage: yardstick proxy|backend|json|sse [flags]")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	listen := flags.String("listen", "", "host:port")
	target := flags.String("url", "", "URL")
	conns := flags.Int("conns", 32, "connections or streams at once")
	seconds := flags.Float64("seconds", 1.5, "length of the run")
	every := flags.Duration("every", 20*time.Millisecond, "time between two chunks")
	flags.Parse(os.Args[2:])
	switch os.Args[1] {
	case "proxy":
		proxy(*listen, *target)
	case "backend":
		backend(*listen)
	case "json":
		report(runJSON(*target, *conns, *seconds))
	case "sse":
		report(runSSE(*target, *conns, *seconds, *every))
	default:
		fail("unknown command " + os.Args[1])
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "yardstick: "+message)
	os.Exit(2)
}

// proxy is the smallest thing that streams: what a Go gateway is built on, without the gateway.
func proxy(listen, target string) {
	to, err := url.Parse(target)
	if err != nil {
		fail(err.Error())
	}
	handler := httputil.NewSingleHostReverseProxy(to)
	handler.FlushInterval = -1
	handler.Transport = &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	fail(http.ListenAndServe(listen, handler).Error())
}

var answer = []byte(`{"id":"1","object":"chat.completion","choices":[{"message":{"content":"` +
	strings.Repeat("x", 360) + `"}}]}`)

func backend(listen string) {
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {})
	http.HandleFunc("/v1/json", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	})
	http.HandleFunc("/v1/sse", stream)
	fail(http.ListenAndServe(listen, nil).Error())
}

// stream sends chunks of 250 bytes; each says when it was sent, on the clock the client reads too.
func stream(w http.ResponseWriter, r *http.Request) {
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	every, _ := time.ParseDuration(r.URL.Query().Get("every"))
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := w.(http.Flusher)
	pad := strings.Repeat("x", 210)
	next := time.Now()
	for i := 0; i < count; i++ {
		next = next.Add(every)
		time.Sleep(time.Until(next))
		fmt.Fprintf(w, "data: {\"at\":%019d,\"pad\":\"%s\"}\n\n", time.Now().UnixNano(), pad)
		flusher.Flush()
	}
}

// Result is one run: how much got through, how long each took, and what went wrong.
type Result struct {
	Count   int     `json:"count"`
	Errors  int     `json:"errors"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

func report(r Result) { json.NewEncoder(os.Stdout).Encode(r) }

func collect(conns int, one func(add func(time.Duration), failed func())) Result {
	var mutex sync.Mutex
	var group sync.WaitGroup
	var latencies []time.Duration
	errors := 0
	began := time.Now()
	for i := 0; i < conns; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			var own []time.Duration
			bad := 0
			one(func(d time.Duration) { own = append(own, d) }, func() { bad++ })
			mutex.Lock()
			defer mutex.Unlock()
			latencies = append(latencies, own...)
			errors += bad
		}()
	}
	group.Wait()
	result := Result{Count: len(latencies), Errors: errors, Seconds: time.Since(began).Seconds()}
	if len(latencies) > 0 {
		sort.Slice(latencies, func(a, b int) bool { return latencies[a] < latencies[b] })
		at := func(share float64) float64 {
			return float64(latencies[int(share*float64(len(latencies)-1))]) / 1e6
		}
		result.P50, result.P99 = at(0.50), at(0.99)
	}
	return result
}

func client(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns, DisableCompression: true,
	}}
}

var body = []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 640) + `"}]}`)

func request(target string) *http.Request {
	r, err := http.NewRequest("POST", target, bytes.NewReader(body))
	if err != nil {
		fail(err.Error())
	}
	for name, value := range map[string]string{
		"Content-Type":                "application/json",
		"Accept":                      "application/json",
		"Authorization":               "Bearer sk-bench",
		"User-Agent":                  "AsyncOpenAI/Python 3.57.0",
		"X-Stainless-Lang":            "python",
		"X-Stainless-Package-Version": "3.57.0",
		"X-Stainless-Os":              "Linux",
		"X-Stainless-Arch":            "x64",
		"X-Stainless-Runtime":         "CPython",
		"X-Stainless-Read-Timeout":    "600",
		"X-Stainless-Retry-Count":     "0",
	} {
		r.Header.Set(name, value)
	}
	return r
}

func runJSON(target string, conns int, seconds float64) Result {
	http := client(conns)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	return collect(conns, func(add func(time.Duration), failed func()) {
		for time.Now().Before(end) {
			began := time.Now()
			response, err := http.Do(request(target + "/v1/json"))
			if err != nil {
				failed()
				continue
			}
			n, err := io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != 200 || n != int64(len(answer)) {
				failed()
				continue
			}
			add(time.Since(began))
		}
	})
}

func runSSE(target string, streams int, seconds float64, every time.Duration) Result {
	http := client(streams)
	count := int(seconds * float64(time.Second) / float64(every))
	path := fmt.Sprintf("%s/v1/sse?count=%d&every=%s", target, count, every)
	return collect(streams, func(add func(time.Duration), failed func()) {
		response, err := http.Do(request(path))
		if err != nil || response.StatusCode != 200 {
			failed()
			return
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		got := 0
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) < 33 {
				continue
			}
			sent, err := strconv.ParseInt(string(line[12:31]), 10, 64)
			if err != nil {
				failed()
				return
			}
			add(time.Duration(time.Now().UnixNano() - sent))
			got++
		}
		if got != count {
			failed()
		}
	})
}
