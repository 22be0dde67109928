module noctaya/bench/yardstick

go 1.22
