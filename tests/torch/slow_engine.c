/* Loaded into a process before torch: holds the first gradient message of a backward pass at the place where the next
   one can overtake it. torch's engine has just marked the context as begun; it now forgets what the context has sent.
   The second call for a context, at the end of its pass, is not held. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define NAME "_ZN5torch11distributed8autograd19DistAutogradContext20clearOutstandingRpcsEv"
#define MOST 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *begun[MOST];

void hold(void *context) __asm__(NAME);

/* Whether this call is the first for the context, or the first since its second. */
static int is_first(void *context)
{
    int first = 1, place = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++) {
        if (begun[i] == context) {
            begun[i] = NULL;
            first = 0;
            break;
        }
        if (begun[i] == NULL)
            place = i;
    }
    if (first && place < 0)
        abort();
    if (first)
        begun[place] = context;
    pthread_mutex_unlock(&lock);
    return first;
}

void hold(void *context)
{
    const char *milliseconds = getenv("HELD_MILLISECONDS");
    void *torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    void (*original)(void *) = torch == NULL ? NULL : (void (*)(void *))dlsym(torch, NAME);
    if (original == NULL)
        abort();
    if (is_first(context) && milliseconds != NULL) {
        long long nanoseconds = atoll(milliseconds) * 1000000LL;
        struct timespec time = {nanoseconds / 1000000000LL, nanoseconds % 1000000000LL};
        nanosleep(&time, NULL);
    }
    original(context);
}
