package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapTo returns a logger for etcd. Its messages go to logger, as debug messages below warnings.
// fatal ends the process where etcd would.
func zapTo(logger *slog.Logger, fatal func(error)) *zap.Logger {
	end := hook(fatal)
	return zap.New(&core{logger: logger}, zap.WithFatalHook(end), zap.WithPanicHook(end))
}

// hook ends the process after a message.
type hook func(error)

// OnWrite implements [zapcore.CheckWriteHook].
func (h hook) OnWrite(e *zapcore.CheckedEntry, _ []zapcore.Field) {
	h(errors.New("cluster: etcd: " + e.Message))
}

// core writes etcd's messages to a logger of the standard library.
type core struct {
	logger *slog.Logger
	fields []zapcore.Field
}

func levelOf(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Enabled implements [zapcore.Core].
func (c *core) Enabled(level zapcore.Level) bool {
	return c.logger.Enabled(context.Background(), levelOf(level))
}

// With implements [zapcore.Core].
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.logger, append(slices.Clip(c.fields), fields...)}
}

// idle are messages about ports and users of etcd that a node does not have, and about the end of
// serving, which [Config.Fatal] tells unless the node was closed.
var idle = []string{"Running http and grpc server on single port. This is not recommended for production.",
	"simple token is not cryptographically signed", "setting up serving from embedded etcd failed."}

// Check implements [zapcore.Core].
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) && !slices.Contains(idle, e.Message) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements [zapcore.Core].
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range append(slices.Clip(c.fields), fields...) {
		field.AddTo(encoder)
	}
	attrs := []slog.Attr{slog.String("message", e.Message)}
	for key, value := range encoder.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	c.logger.LogAttrs(context.Background(), levelOf(e.Level), "etcd", attrs...)
	return nil
}

// Sync implements [zapcore.Core].
func (c *core) Sync() error { return nil }
