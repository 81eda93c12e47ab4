/* Preloaded, it answers for the processor as an AMD EPYC without AVX-512 would.

   Libraries ask by the instruction `cpuid`, which Linux lets fail on processors that can; the
   handler then executes it, changes what it says, goes on behind it. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(n) (1u << (n))

static const char NAME[49] = "AMD EPYC 7763 64-Core Processor                 ";

static void answer(unsigned leaf, unsigned sub, unsigned r[4])
{
    if (leaf == 0 || leaf == 0x80000000) { /* AuthenticAMD */
        r[0] = leaf ? 0x80000023 : 0x10;
        r[1] = 0x68747541, r[2] = 0x444d4163, r[3] = 0x69746e65;
    } else if (leaf == 1) {
        r[0] = 0x00a00f11; /* family 25, model 1 */
    } else if (leaf == 7) { /* no AVX-512, no AMX, nothing newer */
        unsigned keep = sub == 0;
        r[0] = r[3] = 0;
        r[1] = keep ? r[1] & ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31)) : 0;
        r[2] = keep ? r[2] & ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14)) : 0;
    } else if (leaf == 4) { /* caches are told elsewhere */
        memset(r, 0, 16);
    } else if (leaf == 0x8000001d) { /* 32 KiB, 32 KiB, 512 KiB, 32 MiB */
        static const unsigned caches[4][3] = {
            {0x121, 7, 63}, {0x122, 7, 63}, {0x143, 7, 1023}, {0x163, 15, 32767}};
        memset(r, 0, 16);
        if (sub < 4)
            r[0] = caches[sub][0], r[1] = caches[sub][1] << 22 | 63, r[2] = caches[sub][2];
    } else if (leaf >= 0x80000002 && leaf <= 0x80000004) {
        memcpy(r, NAME + 16 * (leaf - 0x80000002), 16);
    }
}

static void handle(int number, siginfo_t *info, void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    unsigned char *at = (unsigned char *)g[REG_RIP];
    unsigned leaf = g[REG_RAX], sub = g[REG_RCX], r[4] = {leaf, 0, sub, 0};
    if (at[0] != 0x0f || at[1] != 0xa2) {
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    __asm__ volatile("cpuid" : "+a"(r[0]), "=b"(r[1]), "+c"(r[2]), "=d"(r[3]));
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    answer(leaf, sub, r);
    g[REG_RAX] = r[0], g[REG_RBX] = r[1], g[REG_RCX] = r[2], g[REG_RDX] = r[3];
    g[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, 0);
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
}
