package metrics

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"recoveryledger/api"
)

// TestLeader: a node leads only if it knows itself as the leader. A node that lost the majority is
// not told so, and knows no leader any more.
func TestLeader(t *testing.T) {
	away := errors.New("etcd is away")
	for _, test := range []struct {
		leads  bool
		leader string
		err    error
		want   string
	}{
		{true, "n1", nil, "1"}, {true, "", nil, "0"}, {true, "n2", nil, "0"}, {false, "n1", nil, "0"}, {true, "n1", away, "0"},
	} {
		m := New()
		m.Cluster(func() bool { return test.leads }, func(context.Context) (*api.Cluster, error) {
			return &api.Cluster{Node: "n1", Leader: test.leader, Members: []api.Member{{Name: "n1"}, {Name: "n2", Lag: 7}}}, test.err
		})
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		text := answer.Body.String()
		if !strings.Contains(text, "\narl_cluster_leader "+test.want+"\n") {
			t.Errorf("%+v: not %s", test, test.want)
		}
		if lag := strings.Contains(text, "\narl_cluster_lag_entries{node=\"n2\"} 7\n"); lag != (test.err == nil) {
			t.Errorf("%+v: the lag is shown: %t", test, lag)
		}
	}
}
