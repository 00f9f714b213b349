#include "vm_table.h"

#include <dlfcn.h>
#include <string.h>

struct field_layout {
    uint64_t type_name, field_name, type_string, is_static, offset, address, stride;
};

struct type_layout {
    uint64_t type_name, size, stride;
};

static bool read_symbol(void* library, const char* name, uint64_t* value) {
    const void* const symbol = dlsym(library, name);
    if (symbol) memcpy(value, symbol, sizeof(*value));
    return symbol != NULL;
}

static const char* text_at(const char* entry, uint64_t offset) {
    const char* text;
    memcpy(&text, entry + offset, sizeof(text));
    return text;
}

static bool is_type(const char* type, const char* wanted) {
    return strcmp(type, wanted) == 0 || (strcmp(wanted, "JavaThread") == 0 && strcmp(type, "Thread") == 0);
}

static void read_field(const char* entry, const struct field_layout* layout, struct plumb_vm_field* fields,
                       int count) {
    const char* const type = text_at(entry, layout->type_name);
    const char* const field = text_at(entry, layout->field_name);
    const char* const kind = text_at(entry, layout->type_string);
    int32_t is_static;
    memcpy(&is_static, entry + layout->is_static, sizeof(is_static));
    if (!field) return;
    for (int i = 0; i < count; i++) {
        struct plumb_vm_field* const wanted = &fields[i];
        if (wanted->found || wanted->is_static != (is_static != 0) || strcmp(field, wanted->field) != 0 ||
            !is_type(type, wanted->type) || (wanted->kind && (!kind || strcmp(kind, wanted->kind) != 0)))
            continue;
        memcpy(&wanted->at, entry + (is_static ? layout->address : layout->offset), sizeof(wanted->at));
        wanted->kind = kind;
        wanted->found = true;
    }
}

static void read_fields(void* library, struct plumb_vm_field* fields, int count) {
    struct field_layout layout;
    uint64_t table = 0;
    if (!read_symbol(library, "gHotSpotVMStructEntryTypeNameOffset", &layout.type_name) ||
        !read_symbol(library, "gHotSpotVMStructEntryFieldNameOffset", &layout.field_name) ||
        !read_symbol(library, "gHotSpotVMStructEntryTypeStringOffset", &layout.type_string) ||
        !read_symbol(library, "gHotSpotVMStructEntryIsStaticOffset", &layout.is_static) ||
        !read_symbol(library, "gHotSpotVMStructEntryOffsetOffset", &layout.offset) ||
        !read_symbol(library, "gHotSpotVMStructEntryAddressOffset", &layout.address) ||
        !read_symbol(library, "gHotSpotVMStructEntryArrayStride", &layout.stride) || layout.stride == 0 ||
        !read_symbol(library, "gHotSpotVMStructs", &table) || table == 0)
        return;
    for (const char* entry = (const char*)table; text_at(entry, layout.type_name); entry += layout.stride)
        read_field(entry, &layout, fields, count);
}

static void read_types(void* library, struct plumb_vm_type* types, int count) {
    struct type_layout layout;
    uint64_t table = 0;
    if (!read_symbol(library, "gHotSpotVMTypeEntryTypeNameOffset", &layout.type_name) ||
        !read_symbol(library, "gHotSpotVMTypeEntrySizeOffset", &layout.size) ||
        !read_symbol(library, "gHotSpotVMTypeEntryArrayStride", &layout.stride) || layout.stride == 0 ||
        !read_symbol(library, "gHotSpotVMTypes", &table) || table == 0)
        return;
    for (const char* entry = (const char*)table; text_at(entry, layout.type_name); entry += layout.stride) {
        for (int i = 0; i < count; i++) {
            if (strcmp(text_at(entry, layout.type_name), types[i].type) != 0) continue;
            memcpy(&types[i].bytes, entry + layout.size, sizeof(types[i].bytes));
            types[i].found = true;
        }
    }
}

/* The library that JVMTI's functions are in. */
static void* open_vm_library(jvmtiEnv* jvmti) {
    void* function;
    memcpy(&function, &(*jvmti)->GetVersionNumber, sizeof(function));
    Dl_info info;
    if (dladdr(function, &info) == 0 || !info.dli_fname) return NULL;
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void plumb_vm_table_read(jvmtiEnv* jvmti, struct plumb_vm_field* fields, int field_count,
                         struct plumb_vm_type* types, int type_count) {
    void* const library = open_vm_library(jvmti);
    if (!library) return;
    read_fields(library, fields, field_count);
    if (type_count > 0) read_types(library, types, type_count);
    dlclose(library);
}
