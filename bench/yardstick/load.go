package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

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

// request is what OpenAI's client for Python sends, headers included, with 700 bytes of body.
func request(target, message string, stream bool) *http.Request {
	message += strings.Repeat(" ", max(0, 640-len(message)))
	body := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"%s"}]}`, stream, message)
	r, err := http.NewRequest("POST", target+"/v1/chat/completions", bytes.NewReader([]byte(body)))
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

func runPlain(target string, conns int, seconds float64) Result {
	http := client(conns)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	return collect(conns, func(add func(time.Duration), failed func()) {
		for time.Now().Before(end) {
			began := time.Now()
			response, err := http.Do(request(target, "", false))
			if err != nil {
				failed()
				continue
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != 200 || !bytes.Contains(body, []byte(filling)) {
				failed()
				continue
			}
			add(time.Since(began))
		}
	})
}

func runStreams(target string, streams int, seconds float64, every time.Duration) Result {
	http := client(streams)
	count := int(seconds * float64(time.Second) / float64(every))
	message := fmt.Sprintf("%d chunks, one every %d ns", count, every.Nanoseconds())
	return collect(streams, func(add func(time.Duration), failed func()) {
		response, err := http.Do(request(target, message, true))
		if err != nil || response.StatusCode != 200 {
			failed()
			return
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		got := 0
		for lines.Scan() {
			_, content, found := bytes.Cut(lines.Bytes(), []byte(`"content":"`))
			if !found || len(content) < 19 {
				continue
			}
			sent, err := strconv.ParseInt(string(content[:19]), 10, 64)
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
