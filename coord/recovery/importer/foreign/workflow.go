package foreign

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Task is one task of a workflow instance.
type Task struct {
	// ID and Name are those of the document; Program is what the task ran, if the document says so.
	ID, Name, Program string
	// Command is the program and its arguments as JSON; empty: not recorded.
	Command string
	// Parents are the indexes of the tasks that this one waits for, ascending.
	Parents []int
	// Runtime is the time that the task took, in seconds, as the document writes it; absent: the
	// task was not executed.
	Runtime jsontext.Value
	// Field is the JSON pointer of Runtime.
	Field string
	// MakesFiles says that the task writes files, and none of the files that it reads.
	MakesFiles bool
}

// Graph is an instance of a workflow.
type Graph struct {
	// Name of the instance; empty: none.
	Name string
	// Tasks stand after the tasks that they wait for, and otherwise as in the document.
	Tasks []Task
}

type wfInstance struct {
	Name     string `json:"name"`
	Workflow *struct {
		Specification *struct {
			Tasks []wfTask `json:"tasks"`
		} `json:"specification"`
		Execution *struct {
			Tasks []wfTask `json:"tasks"`
		} `json:"execution"`
		Tasks []wfTask `json:"tasks"`
		Jobs  []wfTask `json:"jobs"`
	} `json:"workflow"`
}

type wfTask struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Parents  []string       `json:"parents"`
	Children []string       `json:"children"`
	Inputs   []string       `json:"inputFiles"`
	Outputs  []string       `json:"outputFiles"`
	Runtime  jsontext.Value `json:"runtimeInSeconds"`
	Took     jsontext.Value `json:"runtime"`
	Command  struct {
		Program   string         `json:"program"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"command"`
	Files []struct {
		Link string `json:"link"`
		Name string `json:"name"`
		ID   string `json:"id"`
	} `json:"files"`
}

// Workflow reads an instance of WfCommons, of the versions 1.0 to 1.6 of its format. No more than
// limit tasks are read.
func Workflow(value jsontext.Value, limit int) (Graph, *scenario.Error) {
	var instance wfInstance
	if wrong := scenario.DecodeRecord(value, &instance); wrong != nil {
		return Graph{}, wrong
	}
	if instance.Workflow == nil {
		return Graph{}, scenario.Malformed("/workflow", "is missing", "pass an instance of WfCommons")
	}
	field, tasks := "/workflow/specification/tasks", instance.Workflow.Tasks
	switch w := instance.Workflow; {
	case w.Specification != nil:
		tasks = w.Specification.Tasks
	case w.Tasks != nil:
		field = "/workflow/tasks"
	default:
		field, tasks = "/workflow/jobs", w.Jobs
	}
	if len(tasks) == 0 {
		return Graph{}, scenario.Malformed(field, "is missing or empty", "pass an instance with its tasks")
	}
	if len(tasks) > limit {
		return Graph{}, &scenario.Error{Problem: entry.TooLarge, Field: field, Detail: fmt.Sprintf("holds more than %d tasks", limit), Remedy: "split the workflow into instances"}
	}
	g := graph{tasks: tasks, field: field, index: map[string]int{}}
	if wrong := g.name(); wrong != nil {
		return Graph{}, wrong
	}
	if w := instance.Workflow; w.Execution != nil {
		if wrong := g.executed(w.Execution.Tasks); wrong != nil {
			return Graph{}, wrong
		}
	}
	ordered, wrong := g.ordered()
	return Graph{Name: instance.Name, Tasks: ordered}, wrong
}

// graph is the tasks of an instance while their edges are found.
type graph struct {
	tasks   []wfTask
	field   string
	index   map[string]int // tasks by id, and by a name that one task has
	runs    []Task
	parents [][]int
}

// name finds the tasks by the words that refer to them.
func (g *graph) name() *scenario.Error {
	for i := range g.tasks {
		t := &g.tasks[i]
		id := cmp.Or(t.ID, t.Name)
		if id == "" {
			return scenario.Malformed(at(g.field, i)+"/id", "is missing, and so is name", "give each task an id")
		}
		if _, ok := g.index[id]; ok {
			return scenario.Malformed(at(g.field, i)+"/id", named(id)+", which an earlier task has", "give each task its own id")
		}
		g.index[id] = i
		g.runs = append(g.runs, t.task(id, at(g.field, i)))
	}
	g.parents = make([][]int, len(g.tasks))
	names := map[string]int{}
	for i := range g.tasks {
		names[g.tasks[i].Name]++
	}
	for i := range g.tasks { // the versions before 1.4 refer to tasks by name
		name := g.tasks[i].Name
		if _, ok := g.index[name]; !ok && names[name] == 1 {
			g.index[name] = i
		}
	}
	return nil
}

// task is a task without its edges.
func (t *wfTask) task(id, field string) Task {
	in, out := slices.Clone(t.Inputs), slices.Clone(t.Outputs)
	for _, f := range t.Files {
		switch name := cmp.Or(f.ID, f.Name); f.Link {
		case "input":
			in = append(in, name)
		case "output":
			out = append(out, name)
		}
	}
	one := Task{ID: id, Name: cmp.Or(t.Name, id)}
	one.run(t, field)
	one.MakesFiles = len(out) > 0 && (t.Type == "" || t.Type == "compute") && !slices.ContainsFunc(out, func(name string) bool { return slices.Contains(in, name) })
	return one
}

// run sets what is known of the execution of the task.
func (one *Task) run(t *wfTask, field string) {
	if first(t.Runtime, t.Took) != nil {
		one.Runtime, one.Field = first(t.Runtime, t.Took), field+"/runtimeInSeconds"
		if first(t.Runtime) == nil {
			one.Field = field + "/runtime"
		}
	}
	if t.Command.Program != "" {
		one.Program = t.Command.Program
		one.Command = t.Command.Program + " " + string(t.Command.Arguments)
	}
}

// executed takes the executions of the tasks.
func (g *graph) executed(runs []wfTask) *scenario.Error {
	const field = "/workflow/execution/tasks"
	seen := map[int]bool{}
	for i := range runs {
		task, ok := g.index[runs[i].ID]
		if !ok || seen[task] {
			return scenario.Malformed(at(field, i)+"/id", named(runs[i].ID)+", which is no task, or one that stands here before", "export the instance again with all its tasks")
		}
		seen[task] = true
		g.runs[task].run(&runs[i], at(field, i))
	}
	return nil
}

// connect finds the edges of a task: its parents, and itself as the parent of its children.
func (g *graph) connect(i int) *scenario.Error {
	t := &g.tasks[i]
	for j, parent := range t.Parents {
		from, ok := g.index[parent]
		if !ok {
			return scenario.Malformed(at(at(g.field, i)+"/parents", j), named(parent)+", which is no task", "export the instance again with all its tasks")
		}
		g.parents[i] = append(g.parents[i], from)
	}
	for j, child := range t.Children {
		to, ok := g.index[child]
		if !ok {
			return scenario.Malformed(at(at(g.field, i)+"/children", j), named(child)+", which is no task", "export the instance again with all its tasks")
		}
		g.parents[to] = append(g.parents[to], i)
	}
	return nil
}

// ordered is the tasks after those that they wait for.
func (g *graph) ordered() ([]Task, *scenario.Error) {
	for i := range g.tasks {
		if wrong := g.connect(i); wrong != nil {
			return nil, wrong
		}
	}
	waits, children := make([]int, len(g.tasks)), make([][]int, len(g.tasks))
	for i, parents := range g.parents {
		slices.Sort(parents)
		g.parents[i] = slices.Compact(parents)
		waits[i] = len(g.parents[i])
		for _, parent := range g.parents[i] {
			children[parent] = append(children[parent], i)
		}
	}
	var ready []int
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	place, out := make([]int, len(g.tasks)), make([]Task, 0, len(g.tasks))
	for at := 0; at < len(ready); at++ {
		i := ready[at]
		place[i] = len(out)
		one := g.runs[i]
		for _, parent := range g.parents[i] {
			one.Parents = append(one.Parents, place[parent])
		}
		slices.Sort(one.Parents)
		out = append(out, one)
		for _, child := range children[i] {
			if waits[child]--; waits[child] == 0 {
				ready = append(ready, child)
			}
		}
	}
	if len(out) < len(g.tasks) {
		stuck := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
		return nil, scenario.Malformed(at(g.field, stuck), "depends on itself", "remove the cycle of parents")
	}
	return out, nil
}
