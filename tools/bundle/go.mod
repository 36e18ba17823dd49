module github.com/openthreeds/threeds/tools/bundle

go 1.26.0

require (
	github.com/evanw/esbuild v0.28.2
	github.com/openthreeds/threeds v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/openthreeds/threeds => ../..
