/*
 * A program with USDT markers that prints what it gave each of them: values at places that the compiler chooses, and, by notes
 * written by hand, at those that only another compiler would.
 */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
unsigned short shop_order_semaphore __attribute__((section(".probes")));
unsigned short shop_twice_semaphore __attribute__((section(".probes")));
unsigned short shop_memory_semaphore __attribute__((section(".probes")));
int table[4] = {11, 22, 33, 44};
static int raised, calls;
#define NOTE(arguments)                                                                                  \
    "990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n991: " \
    ".asciz \"stapsdt\"\n"                                                                               \
    "992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n.asciz \"shop\"\n.asciz "        \
    "\"hard\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection\n"
__attribute__((noinline)) void order(int count, const char* name, unsigned char letter, short below) {
    DTRACE_PROBE5(shop, order, count, name, letter, below, -7);
    raised += shop_order_semaphore != 0;
    calls++;
}
__attribute__((noinline)) void memory(int count) {
    double price = count / 4.0;
    float half = (float)count / 2;
    long large = count * -10000000000L;
    __asm__ volatile("" : "+m"(price), "+m"(half), "+m"(large));
    DTRACE_PROBE4(shop, memory, price, half, large, table[2]);
}
__attribute__((noinline)) void hard(long a, int* b) {
    __asm__ volatile(
        NOTE("-4@%%edi 8@%%rdi 1@%%dil -2@%%ax 1@%%ah 4@4(%%rsi) -4@-4(%%rsi) 4@table+4(%%rip) "
             "4@8+table(%%rip) "
             "-4@table(%%rip) 4@(%%rsi,%%rax,4) 8@%%xmm0 -1@$-128 2@$0x10 8@%%r9 4@nowhere(%%rip)")
        :
        : "D"(a), "S"(b), "a"(a * 257), "r"(table)
        : "memory");
}
__attribute__((noinline)) int worth(int count) {
    __asm__ volatile("");
    return count * -3;
}
int main(int count, char** arguments) {
    const int rounds = count > 1 ? atoi(arguments[1]) : 3;
    static const char* const names[] = {"tea", "x", "a longer name"};
    int numbers[4] = {1, -2, 3, 4};
    for (int i = 0; i < rounds; i++) {
        order(i - 1, names[i % 3], (unsigned char)(200 + i), (short)(-1000 - i));
        printf("order|%d|%s|%d|%d|%d\n", i - 1, names[i % 3], (unsigned char)(200 + i), (short)(-1000 - i),
               -7);
        printf("worth|%d\n", worth(i));
        memory(i);
        printf("memory|%g|%g|%ld|%d\n", i / 4.0, i / 2.0, i * -10000000000L, table[2]);
        hard(i - 1, numbers + 2);
        const long a = i - 1;
        printf("hard|%d|%lu|%u|%d|%u|%d|%d|%d|%d|%d|%d|%d\n", (int)a, (unsigned long)a, (unsigned char)a,
               (short)(a * 257), (unsigned char)((a * 257) >> 8), numbers[3], numbers[1], table[1], table[2],
               table[0], -128, 16);
        if (i % 2)
            DTRACE_PROBE2(shop, twice, i, 1);
        else
            DTRACE_PROBE2(shop, twice, i, 2);
    }
    fprintf(stderr, "raised in %d of %d\n", raised, calls);
    return 0;
}
