"""Names of what the programs measure, and rows of the table made of it."""

OWN_ADD, ATOMIC_ADD = "what_does_an_add_to_a_variable_of_the_thread_cost", "what_does_an_atomic_add_cost"
NUMBER = "what_does_an_event_with_one_u64_cost"
NAME = "what_does_an_event_with_a_string_and_a_u64_cost"
MUTEX = "what_does_a_mutex_lock_and_unlock_cost"
START = "how_long_does_a_program_take_to_start_and_end"
ORDER = "what_does_an_event_with_eight_fields_cost"
TWO = "do_two_threads_cost_each_other_anything"


def row_of(question, counters, remark=""):
    row = {"question": question, "unit": "ns", "remark": remark}
    for key in ("median", "p5", "p95"):
        row[key] = counters.get(f"warm_{key}")
    row["cold"] = counters.get("cold_median")
    row["ratio"] = counters.get("ratio")
    row["clock"] = counters.get("clock_median")
    return row


def missing(question, why):
    return {"question": question, "remark": why, "missing": True}


def row_of_two(question, counters):
    """Of two threads at once."""
    return {"question": question, "unit": "ns", "median": counters["warm_median"], "threads_ratio": counters["threads_ratio"],
            "remark": f"{counters['threads_ratio']:.2f} x the cost with 1 thread"}
