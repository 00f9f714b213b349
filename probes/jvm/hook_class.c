/*
 * The class whose methods hooked code calls. It has to be found from every class, whatever its loader and its module: so it is the boot
 * loader's, and of java.lang, which every module reads. All it has is native methods. Once made it stays, as classes of that loader do.
 * A loader that does not hand on what it does not know throws at the first hook (docs/jvm.md): it can not be asked before, since it may
 * take any lock, and any time, where a thread of the program's holds locks, or one of ours is waited for.
 */
#include "method_hooks.h"
#include "methods.h"

static jclass any_class; /* NULL: not known */
static bool class_is_there;

static void put_text(struct plumb_class_output* output, const char* text) {
    enum { tag_utf8 = 1 };
    plumb_write_u8(output, tag_utf8);
    plumb_write_u16(output, (uint32_t)strlen(text));
    plumb_write_bytes(output, text, strlen(text));
}

static void put_class(struct plumb_class_output* output, const char* name, uint32_t name_index) {
    enum { tag_class = 7 };
    put_text(output, name);
    plumb_write_u8(output, tag_class);
    plumb_write_u16(output, name_index);
}

static void make_class_file(struct plumb_class_output* output) {
    enum { version = 50, class_access = 0x1031, method_access = 0x1109 }; /* all public and synthetic */
    static const char* const methods[][2] = {{PLUMB_HOOK_ENTER, PLUMB_HOOK_ENTER_TYPE},
                                             {PLUMB_HOOK_EXIT, PLUMB_HOOK_EXIT_TYPE},
                                             {PLUMB_HOOK_THROWN, PLUMB_HOOK_THROWN_TYPE}};
    enum { method_count = sizeof(methods) / sizeof(methods[0]), first_text = 5 };
    plumb_write_u32(output, 0xcafebabe);
    plumb_write_u32(output, version);
    plumb_write_u16(output, first_text + 2 * method_count);
    put_class(output, PLUMB_HOOK_CLASS, 1);
    put_class(output, "java/lang/Object", 3);
    for (size_t i = 0; i < method_count; i++) {
        put_text(output, methods[i][0]);
        put_text(output, methods[i][1]);
    }
    plumb_write_u16(output, class_access);
    plumb_write_u16(output, 2); /* this class, what it extends, interfaces, fields */
    plumb_write_u16(output, 4);
    plumb_write_u32(output, 0);
    plumb_write_u16(output, method_count);
    for (uint32_t i = 0; i < method_count; i++) {
        plumb_write_u16(output, method_access);
        plumb_write_u16(output, first_text + 2 * i);
        plumb_write_u16(output, first_text + 2 * i + 1);
        plumb_write_u16(output, 0);
    }
    plumb_write_u16(output, 0);
}

static bool register_natives(JNIEnv* jni, jclass class) {
    static char names[][8] = {PLUMB_HOOK_ENTER, PLUMB_HOOK_EXIT, PLUMB_HOOK_THROWN};
    static char enter_type[] = PLUMB_HOOK_ENTER_TYPE, exit_type[] = PLUMB_HOOK_EXIT_TYPE,
                thrown_type[] = PLUMB_HOOK_THROWN_TYPE;
    const JNINativeMethod methods[] = {{names[0], enter_type, (void*)(uintptr_t)plumb_method_enter},
                                       {names[1], exit_type, (void*)(uintptr_t)plumb_method_exit},
                                       {names[2], thrown_type, (void*)(uintptr_t)plumb_method_thrown}};
    return (*jni)->RegisterNatives(jni, class, methods, sizeof(methods) / sizeof(methods[0])) == JNI_OK &&
           !plumb_threw(jni);
}

/* Who asks for a method has the class initialized, which else the first thread that comes to a hook would do. */
static void make_class(JNIEnv* jni, void* unused) {
    struct plumb_class_output file = {NULL, 0, 0, false};
    (void)unused;
    make_class_file(&file);
    const jclass class = file.failed ? NULL
                                     : (*jni)->DefineClass(jni, PLUMB_HOOK_CLASS, NULL, (const jbyte*)file.at,
                                                           (jsize)file.bytes);
    free(file.at);
    if (plumb_threw(jni) || !class) return;
    class_is_there = register_natives(jni, class) &&
                     (*jni)->GetStaticMethodID(jni, class, PLUMB_HOOK_ENTER, PLUMB_HOOK_ENTER_TYPE) != NULL;
    plumb_threw(jni);
    (*jni)->DeleteLocalRef(jni, class);
}

bool plumb_hook_class_begin(JNIEnv* jni) {
    if (!class_is_there && any_class) plumb_do_as_jdk(jni, any_class, make_class, NULL);
    return class_is_there;
}

void plumb_hook_class_prepare(JNIEnv* jni, jclass thread_class) {
    any_class = (*jni)->NewGlobalRef(jni, thread_class);
}
