// Prometheus prints rules for Prometheus in which time passes faster: each range, each offset, each "for" and each
// interval is divided by a number. A Prometheus that scrapes and evaluates as many times more often sees as many
// samples in each range as with the rules as they are.
//
//	go -C testing/alerts/prometheus run . 15 ../../../deploy/prometheus/threeds.rules.yaml
//
// It is a module of its own, which also builds that Prometheus without what finds targets in clouds:
//
//	go -C testing/alerts/prometheus build -tags=remove_all_sd github.com/prometheus/prometheus/cmd/prometheus
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prometheus:", err)
		os.Exit(1)
	}
}

// run prints the rules of the file that is named second, with all times divided by the number that is named first.
func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("want a number and a file of rules")
	}
	by, err := strconv.Atoi(args[0])
	if err != nil || by < 1 {
		return fmt.Errorf("want a whole number from 1 on, not %q", args[0])
	}
	promQL := parser.NewParser(parser.Options{})
	file, errs := rulefmt.ParseFile(args[1], false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	divisor := time.Duration(by)
	for i := range file.Groups {
		g := &file.Groups[i]
		g.Interval /= model.Duration(divisor)
		for j := range g.Rules {
			r := &g.Rules[j]
			if r.Expr, err = shorten(promQL, r.Expr, divisor); err != nil {
				return err
			}
			r.For /= model.Duration(divisor)
			r.KeepFiringFor /= model.Duration(divisor)
		}
	}
	data, err := yaml.Marshal(file)
	if err == nil {
		_, err = out.Write(data)
	}
	return err
}

// shorten returns an expression with its ranges, steps and offsets divided.
func shorten(promQL parser.Parser, expr string, by time.Duration) (string, error) {
	root, err := promQL.ParseExpr(expr)
	if err != nil {
		return "", fmt.Errorf("%s: %w", expr, err)
	}
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			n.Range /= by
		case *parser.VectorSelector:
			n.OriginalOffset /= by
		case *parser.SubqueryExpr:
			n.Range, n.Step, n.OriginalOffset = n.Range/by, n.Step/by, n.OriginalOffset/by
		}
		return nil
	})
	return root.String(), nil
}
