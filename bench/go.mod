module github.com/ctxfs/ctxfs/bench

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	github.com/ctxfs/ctxfs v0.0.0-00010101000000-000000000000
	github.com/pkg/sftp v1.13.12
	go.uber.org/goleak v1.3.0
	golang.org/x/crypto v0.58.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/kr/fs v0.1.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
)

replace github.com/ctxfs/ctxfs => ../
