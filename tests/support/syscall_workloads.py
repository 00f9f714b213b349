"""Programs at work, as scripts that any shell runs in an empty folder, here or in a guest; they end with 0 if all came of
them that should. What is expected to be refused is among it, so that errors are."""

COMPILER = r"""set -e
cat > main.c <<'END'
#include <stdio.h>
int twice(int);
int main(void) { return printf("%d\n", twice(21)) < 0; }
END
echo 'int twice(int number) { return 2 * number; }' > twice.c
cc -O1 -g main.c twice.c -o program
test "$(./program)" = 42
echo 'int main(void) { return nothing; }' > wrong.c
! cc wrong.c 2> said
grep -q nothing said
"""

CPP_COMPILER = r"""set -e
cat > main.cc <<'END'
#include <iostream>
#include <thread>
int main() { std::thread([] { std::cout << 42 << std::endl; }).join(); }
END
c++ -pipe main.cc -o program -pthread
test "$(./program)" = 42
"""

BUILD = r"""set -e
for each in one two three; do echo "int $each(void) { return 0; }" > $each.c; done
echo 'int main(void) { return one(); }' >> one.c
printf 'program: one.o two.o three.o\n\tcc -o $@ $^\n' > Makefile
make -j2 > said
./program
make > said
touch two.c
make -j2 > said
! make nothing 2> said
grep -q nothing said
"""

GIT = r"""set -e
git init -q new 2> said
cd new
git config user.name me
git config user.email me@here
for each in one two three; do
    date >> file
    cp file $each
    git add file $each
    git commit -q -m $each
done
git checkout -q -b other HEAD~1
echo more > other
git add other
git commit -q -m other
git merge -q -m merged HEAD@{1}
git gc -q
git log --stat > said
! git show nothing 2> said
grep -q nothing said
"""

DATABASE = r"""set -e
sqlite3 file.db > said <<'END'
CREATE TABLE numbers(id INTEGER PRIMARY KEY, text TEXT);
BEGIN; INSERT INTO numbers VALUES(1, 'one'); INSERT INTO numbers(text) VALUES('two'); COMMIT;
BEGIN; DELETE FROM numbers; ROLLBACK;
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
INSERT INTO numbers(text) SELECT hex(randomblob(5000)) FROM numbers;
PRAGMA wal_checkpoint(TRUNCATE);
VACUUM;
PRAGMA journal_mode=DELETE;
SELECT count(*) FROM numbers;
END
test "$(tail -n 1 said)" = 4
for each in 1 2 3; do # wait for each other's locks
    sqlite3 file.db '.timeout 60000' "BEGIN IMMEDIATE; UPDATE numbers SET text = $each; COMMIT" &
    waits="$waits $!"
done
for each in $waits; do wait $each; done
! sqlite3 file.db 'SELECT * FROM nothing' 2> said
! sqlite3 -readonly file.db 'DELETE FROM numbers' 2> said
grep -q readonly said
"""

# Not by root, which it refuses.
DATABASE_SERVER = r"""set -e
initdb --no-sync -D data -A trust -U me > said
postgres --single -D data postgres > said 2>&1 <<'END'
CREATE TABLE numbers(id INTEGER PRIMARY KEY, text TEXT);
INSERT INTO numbers VALUES(1, 'one');
CHECKPOINT;
SELECT * FROM nothing;
SELECT count(*) FROM numbers;
END
grep -q 'count = "1"' said
grep -q nothing said
"""
