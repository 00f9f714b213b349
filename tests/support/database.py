"""A private mariadbd that belongs to a user of its own, with a client's load; the probe `pthread` and a counter of its locks that knows
nothing of Plumb (lock_counter.c) are preloaded into it."""
import mmap
import os
import pwd
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PROBE = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "probes/pthread/libplumb-pthread.so"
NEEDED = ("mariadbd", "mariadb-install-db", "mariadb", "sysbench", "setpriv")
PATIENCE_S = 60
# As lock_counter.c has them.
LOCK_EVENTS = ("mutex_init", "mutex_destroy", "mutex_acquired", "mutex_released", "mutex_trylock_failed", "rwlock_init", "rwlock_destroy",
               "rwlock_acquired", "rwlock_released", "rwlock_trylock_failed", "cond_wait_begin", "cond_wait_end", "cond_signal",
               "cond_broadcast")


def missing():
    """Of the programs that are needed."""
    return [name for name in NEEDED if not shutil.which(name)]


def user():
    """Whose it is: the distribution's user for it, or one without a name."""
    try:
        return pwd.getpwnam("mysql").pw_uid
    except KeyError:
        return 64101


class Database:
    def __init__(self, folder):
        """`folder`: is made, in one that everybody may enter."""
        self.folder, self.user = folder, user()
        folder.mkdir(mode=0o755)
        os.chown(folder, self.user, self.user)
        self.as_user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        self.socket = folder / "socket"
        self.counter, self.probe = folder / "lock_counter.so", folder / PROBE.name
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", self.counter,
                        SOURCE / "tests/support/lock_counter.c"], check=True)
        shutil.copy(PROBE, self.probe)
        self.counter.chmod(0o755)
        installed = subprocess.run([*self.as_user, "mariadb-install-db", "--no-defaults", f"--datadir={folder}/data", "--skip-test-db",
                                    "--auth-root-authentication-method=normal"], capture_output=True, text=True, timeout=PATIENCE_S,
                                   check=False)
        assert installed.returncode == 0, installed.stdout + installed.stderr
        self.process = None

    def start(self):
        """Its first event is that of the first lock behind the constructors of shared libraries."""
        counts = self.folder / "counts"
        counts.write_bytes(bytes(mmap.PAGESIZE))
        os.chown(counts, self.user, self.user)
        with counts.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.log = (self.folder / "log").open("w+")
        self.process = subprocess.Popen(
            [*self.as_user, "env", f"LD_PRELOAD={self.counter}:{self.probe}", f"LOCK_COUNTS={counts}", "mariadbd", "--no-defaults",
             f"--datadir={self.folder}/data", f"--socket={self.socket}", f"--pid-file={self.folder}/pid", "--skip-networking",
             "--skip-log-bin", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--thread-cache-size=0"],
            stdout=self.log, stderr=subprocess.STDOUT)
        until = time.monotonic() + PATIENCE_S
        while (connections := self.connections()) is None:
            assert self.process.poll() is None and time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.1)
        self.first_connection = connections

    def connections(self):
        """How many it has had, by its own count, this one included."""
        done = subprocess.run(["mariadb", "--no-defaults", "-u", "root", "-S", self.socket, "-N", "-B", "-e",
                               "show global status like 'Connections'"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return int(done.stdout.split()[1]) if done.returncode == 0 else None

    def accepted(self):
        """How many connections it has accepted since it was started, this one included."""
        return self.connections() - self.first_connection + 1

    def load(self, transactions, threads=4):
        """As many, from so many connections at once; how many queries that were."""
        words = ["sysbench", "oltp_read_write", "--db-driver=mysql", f"--mysql-socket={self.socket}", "--mysql-user=root",
                 "--mysql-db=mysql", "--tables=1", "--table-size=1000"]
        subprocess.run([*words, "prepare"], capture_output=True, timeout=PATIENCE_S, check=True)
        done = subprocess.run([*words, f"--threads={threads}", f"--events={transactions}", f"--time={PATIENCE_S}", "run"],
                              capture_output=True, text=True, timeout=2 * PATIENCE_S, check=True).stdout
        assert f" {transactions} " in done.split("transactions:")[1].splitlines()[0], done
        return int(done.split("queries:")[1].split()[0])

    def stop(self):
        """Its exit status; all its threads are gone."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_S)
        self.log.close()
        return self.process.returncode

    def locks(self):
        """How often it did what an event of the probe says, by its own count."""
        return dict(zip(LOCK_EVENTS, struct.unpack_from(f"<{len(LOCK_EVENTS)}Q", self.memory)))
