/* parameter_server in C: workers pull and push in the order that the case gives.
 *
 *     cc -O2 -o parameter_server parameter_server.c -lcjson -lm     (Debian: gcc libc6-dev libcjson-dev)
 *     python -m reference conform run suite --out results --cases 'parameter_server-*' -- ./parameter_server
 *
 * It computes in double and rounds what it writes to the case's dtype.
 */

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 255

static void fail(const char *what, const char *name) {
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

/* A whole file, with a zero byte after its end. */
static char *content_of(const char *folder, const char *name, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail("cannot read", path);
    *size = (size_t)ftell(file);
    rewind(file);
    char *content = malloc(*size + 1);
    if (!content || fread(content, 1, *size, file) != *size) fail("cannot read", path);
    content[*size] = 0;
    fclose(file);
    return content;
}

/* --- Input: the numbers of a tensor as doubles --------------------------------------------------------------------- */

static cJSON *header;
static const char *tensors; /* the bytes after the header */
static int is_float;        /* whether the case's dtype is float32 */

static double *tensor(const char *name, int *count) {
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(header, name);
    if (!entry) fail("no tensor", name);
    const char *dtype = cJSON_GetObjectItem(entry, "dtype")->valuestring;
    const cJSON *offsets = cJSON_GetObjectItem(entry, "data_offsets");
    size_t begin = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    size_t end = (size_t)cJSON_GetArrayItem(offsets, 1)->valuedouble;
    int width = strcmp(dtype, "F32") ? 8 : 4;
    *count = (int)((end - begin) / (size_t)width);
    double *found = malloc(sizeof(double) * (size_t)(*count ? *count : 1));
    for (int i = 0; i < *count; i++) {
        const char *at = tensors + begin + (size_t)(i * width);
        float single;
        int64_t whole;
        if (!strcmp(dtype, "F64")) memcpy(&found[i], at, 8);
        else if (!strcmp(dtype, "F32")) memcpy(&single, at, 4), found[i] = single;
        else memcpy(&whole, at, 8), found[i] = (double)whole;
    }
    return found;
}

/* --- Output: names and numbers, in the order in which they are put ------------------------------------------------- */

static char *text;                 /* the header so far */
static unsigned char *body;
static size_t text_size, body_size;

static void put(const char *name, const double *values, int rows, int columns) {
    int count = (rows ? rows : 1) * (columns ? columns : 1), width = is_float ? 4 : 8;
    char shape[64] = "";
    if (rows && columns) snprintf(shape, sizeof shape, "%d,%d", rows, columns);
    else if (rows) snprintf(shape, sizeof shape, "%d", rows);
    text = realloc(text, text_size + strlen(name) + 256);
    body = realloc(body, body_size + (size_t)(count * width));
    if (!text || !body) fail("out of memory", name);
    text_size += (size_t)sprintf(
        text + text_size, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", text_size ? ',' : '{',
        name, is_float ? "F32" : "F64", shape, body_size, body_size + (size_t)(count * width));
    for (int i = 0; i < count; i++) {
        float single = (float)values[i];
        memcpy(body + body_size, is_float ? (const void *)&single : (const void *)&values[i], (size_t)width);
        body_size += (size_t)width;
    }
}

static void write_trace(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/trace.safetensors", folder);
    FILE *file = fopen(path, "wb");
    if (!file) fail("cannot write", path);
    uint64_t length = text_size + 1;
    fwrite(&length, 8, 1, file); /* this machine is little-endian, as the format is */
    fwrite(text, 1, text_size, file);
    fputc('}', file);
    fwrite(body, 1, body_size, file);
    if (fclose(file)) fail("cannot write", path);
}

/* --- The arithmetic ------------------------------------------------------------------------------------------------ */

/* The answer to a case of another tutorial. */
static int skip(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/result.json", folder);
    FILE *file = fopen(path, "wb");
    if (!file) fail("cannot write", path);
    fputs("{\"status\": \"skipped\", \"reason\": \"only parameter_server\"}\n", file);
    return fclose(file) ? 1 : 0;
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage", "parameter_server CASE_DIR OUT_DIR");
    size_t size;
    uint64_t length;
    cJSON *described = cJSON_Parse(content_of(argv[1], "case.json", &size));
    if (strcmp(cJSON_GetObjectItem(described, "tutorial")->valuestring, "parameter_server")) return skip(argv[2]);
    cJSON *numbers = cJSON_GetObjectItem(described, "case");
    const char *input = content_of(argv[1], "input.safetensors", &size);
    memcpy(&length, input, 8);
    header = cJSON_ParseWithLength(input + 8, (size_t)length);
    tensors = input + 8 + length;
    is_float = !strcmp(cJSON_GetObjectItem(numbers, "dtype")->valuestring, "float32");
    int exact = !strcmp(cJSON_GetObjectItem(numbers, "arithmetic")->valuestring, "exact");
    int in = cJSON_GetObjectItem(numbers, "inputs")->valueint, out = cJSON_GetObjectItem(numbers, "outputs")->valueint;
    int rows = cJSON_GetObjectItem(numbers, "batch_size")->valueint;
    int staleness = cJSON_GetObjectItem(numbers, "staleness")->valueint;
    double lr = cJSON_GetObjectItem(numbers, "lr")->valuedouble;
    if (is_float) lr = (float)lr;

    int count, update = 0, all = out * in + out; /* the weight (out, in), and after it the bias */
    double *p = malloc(sizeof(double) * (size_t)all), *g = malloc(sizeof(double) * (size_t)all);
    memcpy(p, tensor("initial/weight", &count), sizeof(double) * (size_t)(out * in));
    memcpy(p + out * in, tensor("initial/bias", &count), sizeof(double) * (size_t)out);
    double *last[WORKERS] = {0}, *before[WORKERS] = {0}; /* what each worker has pulled */
    int pushed[WORKERS] = {0};
    double *events = tensor("order/events", &count);
    for (int event = 0; event < count / 2; event++) {
        int worker = (int)events[2 * event + 1];
        if (events[2 * event] == 0) {
            before[worker] = last[worker];
            last[worker] = memcpy(malloc(sizeof(double) * (size_t)all), p, sizeof(double) * (size_t)all);
            continue;
        }
        const double *at = staleness && before[worker] ? before[worker] : last[worker];
        char name[256];
        int n;
        snprintf(name, sizeof name, "data/worker%d/%04d/data", worker + 1, pushed[worker]);
        double *x = tensor(name, &n);
        snprintf(name, sizeof name, "data/worker%d/%04d/target", worker + 1, pushed[worker]++);
        double *target = tensor(name, &n), loss = 0;
        memset(g, 0, sizeof(double) * (size_t)all);
        for (int row = 0; row < rows; row++)
            for (int o = 0; o < out; o++) {
                double y = at[out * in + o], t = target[row * out + o];
                for (int i = 0; i < in; i++) y += x[row * in + i] * at[o * in + i];
                loss += exact ? y * t : (y - t) * (y - t) / (rows * out);
                double slope = exact ? t : 2 * (y - t) / (rows * out);
                for (int i = 0; i < in; i++) g[o * in + i] += slope * x[row * in + i];
                g[out * in + o] += slope;
            }
        for (int i = 0; i < all; i++) p[i] -= lr * g[i];
        const char *kinds[] = {"gradient", "parameter"};
        snprintf(name, sizeof name, "%04d/loss/worker%d", update, worker + 1);
        put(name, &loss, 0, 0);
        for (int kind = 0; kind < 2; kind++) {
            snprintf(name, sizeof name, "%04d/%s/weight", update, kinds[kind]);
            put(name, kind ? p : g, out, in);
            snprintf(name, sizeof name, "%04d/%s/bias", update, kinds[kind]);
            put(name, (kind ? p : g) + out * in, out, 0);
        }
        update++;
    }
    write_trace(argv[2]);
    return 0;
}
