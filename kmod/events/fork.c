// SPDX-License-Identifier: GPL-2.0
/*
 * sched:sched_process_fork. The kernel's own event has two threads (which it calls parent_pid and child_pid), and readers want
 * to know of which processes they are.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <trace/events/sched.h>

#include "pack.h"

struct fork {
	char parent_comm[TASK_COMM_LEN];
	pid_t parent;
	pid_t parent_process;
	char child_comm[TASK_COMM_LEN];
	pid_t child;
	pid_t child_process;
};

static void probe_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	const struct plumb_active_event *event = data;
	struct plumb_writing writing;
	struct fork *fork = plumb_enter(&writing, event);
	size_t bytes;
	u8 *payload, *to;

	if (!fork)
		return;
	*fork = (struct fork){ .parent = parent->pid, .parent_process = parent->tgid,
			       .child = child->pid, .child_process = child->tgid };
	memcpy(fork->parent_comm, parent->comm, TASK_COMM_LEN);
	memcpy(fork->child_comm, child->comm, TASK_COMM_LEN);
	bytes = plumb_text_bytes(fork->parent_comm, TASK_COMM_LEN) + plumb_text_bytes(fork->child_comm, TASK_COMM_LEN) +
		4 * sizeof(pid_t);
	payload = plumb_begin_payload(&writing, event, bytes);
	if (payload) {
		to = plumb_put_text(payload, fork->parent_comm, TASK_COMM_LEN);
		to = plumb_put(to, &fork->parent, sizeof(pid_t));
		to = plumb_put(to, &fork->parent_process, sizeof(pid_t));
		to = plumb_put_text(to, fork->child_comm, TASK_COMM_LEN);
		to = plumb_put(to, &fork->child, sizeof(pid_t));
		plumb_put(to, &fork->child_process, sizeof(pid_t));
		plumb_end_payload(&writing, event, payload, bytes);
	}
	plumb_leave(&writing);
}

static const struct plumb_event_field *fields(size_t *count)
{
	static const struct plumb_event_field all[] = {
		{ "parent_comm", "char", PLUMB_FIELD_STRING, 1, 0, 0 },
		{ "parent_pid", "pid_t", PLUMB_FIELD_INTEGER, sizeof(pid_t), PLUMB_FIELD_SIGNED, 0 },
		{ "parent_tgid", "pid_t", PLUMB_FIELD_INTEGER, sizeof(pid_t), PLUMB_FIELD_SIGNED, 0 },
		{ "child_comm", "char", PLUMB_FIELD_STRING, 1, 0, 0 },
		{ "child_pid", "pid_t", PLUMB_FIELD_INTEGER, sizeof(pid_t), PLUMB_FIELD_SIGNED, 0 },
		{ "child_tgid", "pid_t", PLUMB_FIELD_INTEGER, sizeof(pid_t), PLUMB_FIELD_SIGNED, 0 },
	};

	*count = ARRAY_SIZE(all);
	return all;
}

const struct plumb_event_probe plumb_fork_event = { "sched", "sched_process_fork", probe_fork, fields };
