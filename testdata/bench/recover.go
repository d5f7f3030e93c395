package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	recoverCases   = 1_000_000
	recoverOneRuns = 21
)

// realRuns is where runs of real agents lie, if they are there; otherwise the
// scenario of the project stands for them.
const (
	realRuns    = "../../../shared/data/aider_swe_bench/attempts.ndjson"
	ownScenario = "../tool_chain_failures.ndjson"
)

// program is arl, built for the measurement, with a home of its own.
type program struct {
	binary, dir string
	cases       [][]byte // lines of the scenario that is repeated
	origin      string   // of the cases, in words
}

// buildBinary builds arl in dir.
func buildBinary(ctx context.Context, dir string) (*program, error) {
	p := &program{binary: filepath.Join(dir, "arl"), dir: dir}
	build := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-trimpath", "-ldflags", "-s -w", "-o", p.binary, "./cmd/arl")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return p, nil
}

// buildProgram builds arl and takes the cases that are repeated.
func buildProgram(ctx context.Context, dir string) (*program, error) {
	p, err := buildBinary(ctx, dir)
	if err != nil {
		return nil, err
	}
	p.origin = "real runs"
	var scenario []byte
	if _, missing := os.Stat(realRuns); errors.Is(missing, fs.ErrNotExist) {
		p.origin = "the project's own failures"
		scenario, err = os.ReadFile(ownScenario)
	} else {
		scenario, err = p.command(ctx, "scenario", "import", "--format", "attempts", realRuns).Output()
	}
	p.cases = bytes.Split(bytes.TrimSpace(scenario), []byte("\n"))
	return p, err
}

func (p *program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Env = append(os.Environ(), "ARL_HOME="+filepath.Join(p.dir, "home"))
	return cmd
}

// scenario writes n cases: those given, again and again under new ids.
func (p *program) scenario(n int) (path string, err error) {
	path = filepath.Join(p.dir, fmt.Sprintf("%d.ndjson", n))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	for i := range n {
		line := p.cases[i%len(p.cases)]
		head, tail, ok := bytes.Cut(line, []byte(`"id":"`))
		if !ok {
			return "", errors.Join(fmt.Errorf("case without id: %.80s", line), f.Close())
		}
		fmt.Fprintf(out, "%s\"id\":\"%d-%s\n", head, i, tail)
	}
	return path, errors.Join(out.Flush(), f.Close())
}

// batch is what a run of arl recover took.
type batch struct {
	rate     float64 // cases a second
	cpu      time.Duration
	resident float64 // MiB at most
}

// recover runs arl recover over n cases. Whatever it recommends, it ran.
func (p *program) recover(ctx context.Context, n int, args ...string) (r batch, err error) {
	path, err := p.scenario(n)
	if err != nil {
		return r, err
	}
	defer os.Remove(path)
	cmd := p.command(ctx, append([]string{"recover", "--scenario", path}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	elapsed := time.Since(start)
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 7 && code != 14 {
		return r, fmt.Errorf("arl recover: %w\n%s", err, stderr.String())
	}
	if !bytes.HasPrefix(out, []byte("[auto_recovered] ")) {
		return r, fmt.Errorf("arl recover printed %q", out)
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return r, errors.New("no resource usage")
	}
	const kibPerMiB = 1 << 10
	return batch{float64(n) / elapsed.Seconds(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), float64(used.Maxrss) / kibPerMiB}, nil
}

func recoverBatch(ctx context.Context, b *bench) error {
	p, err := buildProgram(ctx, b.dir)
	if err != nil {
		return err
	}
	r, err := p.recover(ctx, recoverCases, "--workers", "2")
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("%d cases, %s, %.1f µs of processor time each", recoverCases, p.origin, float64(r.cpu.Microseconds())/recoverCases)
	b.print(row{name: "recover, recorded cases, 2 workers, no ledger", value: r.rate, unit: "cases/s", target: 50_000, detail: detail})
	b.print(row{name: "recover, resident memory at most", value: r.resident, unit: "MiB", target: 300, atMost: true, detail: detail})
	return nil
}

func recoverLedger(ctx context.Context, b *bench) error {
	p, err := buildProgram(ctx, b.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(b.dir, "recorded")
	defer os.RemoveAll(data)
	if err := p.makeLedger(ctx, data); err != nil {
		return err
	}
	r, err := p.recover(ctx, recoverCases, "--workers", "2", "--ledger", data)
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("%d cases, %s, %.0f µs of processor time each", recoverCases, p.origin, float64(r.cpu.Microseconds())/recoverCases)
	b.print(row{name: "recover, each case recorded in an embedded ledger", value: r.rate, unit: "cases/s", target: 15_000, detail: detail})
	b.print(row{name: "recover into a ledger, resident memory at most", value: r.resident, unit: "MiB", target: 300, atMost: true, detail: detail})
	return nil
}

// makeLedger starts a ledger for the first time and stops it.
func (p *program) makeLedger(ctx context.Context, data string) error {
	serve := p.command(ctx, "serve", "--data", data, "--listen", "127.0.0.1:0", "--output", "json")
	stdout, err := serve.StdoutPipe()
	if err != nil {
		return err
	}
	if err := serve.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(stdout).ReadString('\n')
	return errors.Join(err, serve.Process.Signal(syscall.SIGTERM), serve.Wait())
}

func recoverOne(ctx context.Context, b *bench) error {
	p, err := buildProgram(ctx, b.dir)
	if err != nil {
		return err
	}
	one := filepath.Join(b.dir, "one.json")
	if err := os.WriteFile(one, p.cases[0], 0o600); err != nil {
		return err
	}
	var took []float64
	for range recoverOneRuns {
		start := time.Now()
		if out, err := p.command(ctx, "recover", "one", "--case", one).CombinedOutput(); err != nil {
			return fmt.Errorf("arl recover one: %w\n%s", err, out)
		}
		took = append(took, float64(time.Since(start).Microseconds())/1000)
	}
	slices.Sort(took)
	b.print(row{name: "recover one case over the command line, start included", value: median(took), unit: "ms", target: 150, atMost: true,
		detail: strings.TrimSpace(fmt.Sprintf("median of %d, %.0f to %.0f", recoverOneRuns, took[0], took[len(took)-1]))})
	return nil
}
