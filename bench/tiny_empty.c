/* A shared library with nothing in it: what any library costs a program at its start. See start.cc. */
int tiny_empty(void);

int tiny_empty(void) {
    return 0;
}
