package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Every proxy must be able to parse what goes through it, since some do.
var (
	filling = strings.Repeat("x", 240)
	answer  = []byte(`{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"` + filling + `"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
)

type ask struct {
	Stream   bool
	Messages []struct{ Content string }
}

func backend(listen string) {
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {})
	http.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var asked ask
		if json.Unmarshal(body, &asked) != nil || len(asked.Messages) == 0 {
			http.Error(w, "not a chat", http.StatusBadRequest)
		} else if asked.Stream {
			stream(w, asked.Messages[0].Content)
		} else {
			w.Header().Set("Content-Type", "application/json")
			w.Write(answer)
		}
	})
	fail(http.ListenAndServe(listen, nil).Error())
}

// stream sends chunks of 250 bytes, as many and as often as the message says; each says when it was
// sent, on the clock that the client reads too.
func stream(w http.ResponseWriter, message string) {
	var count, every int64
	fmt.Sscanf(message, "%d chunks, one every %d ns", &count, &every)
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := w.(http.Flusher)
	next := time.Now()
	for i := int64(0); i < count; i++ {
		next = next.Add(time.Duration(every))
		time.Sleep(time.Until(next))
		fmt.Fprintf(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",`+
			`"choices":[{"index":0,"delta":{"content":"%019d%s"},"finish_reason":null}]}`+"\n\n",
			time.Now().UnixNano(), filling[:88])
		flusher.Flush()
	}
	io.WriteString(w, "data: [DONE]\n\n")
}
