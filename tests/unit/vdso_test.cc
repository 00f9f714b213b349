// cmake-once
/* Finding functions in the vDSO, over images as the kernel's linker could make them: wherever it was linked, with either table of hashes. */
#include "libtrace/runtime.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace plumb {
namespace {

uint64_t image; /* where the kernel says that it is */
uint64_t told_to_test(unsigned long type) {
    return type == AT_SYSINFO_EHDR ? image : 0;
}

} // namespace
} // namespace plumb

#define told_at_start told_to_test
#define find_in_vdso find_in_image
namespace plumb {
static void* find_in_image(const char* name);
}
#include "libtrace/vdso.cc"
#undef told_at_start
#undef find_in_vdso

namespace plumb {
namespace {

struct alignas(4096) Image {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[3];
    ElfW(Dyn) dynamic[5];
    ElfW(Sym) symbols[5];
    char names[64];
    uint32_t hash[2];
    uint32_t gnu_hash[4 + 2 + 3 + 4]; /* a word of the filter, three buckets, four chains */
};

class VdsoTest : public testing::Test {
protected:
    enum class Hash { old, gnu, none };

    explicit VdsoTest() { make(0, Hash::old); }
    ~VdsoTest() override { image = 0; }

    /* `linked`: the address that it was linked for. Symbols: none, one that is not here, and three functions. */
    void make(uint64_t linked, Hash hash) {
        image_ = {};
        std::memcpy(image_.header.e_ident, ELFMAG, SELFMAG);
        image_.header.e_phentsize = sizeof(ElfW(Phdr));
        image_.header.e_phoff = offsetof(Image, segments);
        image_.header.e_phnum = 3;
        const auto segment = [](uint32_t type, uint64_t offset, uint64_t address) {
            ElfW(Phdr) made = {};
            made.p_type = type;
            made.p_offset = offset;
            made.p_vaddr = address;
            return made;
        };
        image_.segments[0] = segment(PT_LOAD, 0, linked);
        image_.segments[1] = segment(PT_DYNAMIC, offsetof(Image, dynamic), linked + offsetof(Image, dynamic));
        image_.segments[2] = segment(PT_GNU_EH_FRAME, 0, 0x123000);
        const auto entry = [&](int at, int64_t tag, uint64_t offset) {
            image_.dynamic[at].d_tag = tag;
            image_.dynamic[at].d_un.d_ptr = linked + offset;
        };
        entry(0, DT_STRTAB, offsetof(Image, names));
        entry(1, DT_SYMTAB, offsetof(Image, symbols));
        if (hash == Hash::old) entry(2, DT_HASH, offsetof(Image, hash));
        if (hash == Hash::gnu) entry(2, DT_GNU_HASH, offsetof(Image, gnu_hash));
        std::memcpy(image_.names, "\0absent\0first\0second\0third", 27);
        const auto symbol = [&](int at, uint32_t name, uint16_t section, uint64_t value) {
            image_.symbols[at].st_name = name;
            image_.symbols[at].st_shndx = section;
            image_.symbols[at].st_value = value;
        };
        symbol(1, 1, SHN_UNDEF, linked + 0x10);
        symbol(2, 8, 1, linked + 0x20);
        symbol(3, 14, 1, linked + 0x30);
        symbol(4, 21, 1, linked + 0x40);
        image_.hash[1] = 5;
        /* The first symbol with a hash is number 1; one bucket is empty, and the last chain has two. */
        const uint32_t gnu_hash[] = {3, 1, 1, 0, 0, 0, 2, 0, 3, 0, 1, 0, 1};
        std::memcpy(image_.gnu_hash, gnu_hash, sizeof(gnu_hash));
        image = reinterpret_cast<uint64_t>(&image_);
    }
    /* As an offset from its begin; -1: there is none. */
    int64_t found(const char* name) const {
        void* const function = find_in_image(name);
        return function == nullptr ? -1 : static_cast<int64_t>(reinterpret_cast<uint64_t>(function) - image);
    }

    Image image_{};
};

TEST_F(VdsoTest, FunctionsAreFoundWhereverItWasLinked) {
    for (const uint64_t linked : {uint64_t{0}, uint64_t{0x700000}, uint64_t{0xffffffffff700000}})
        for (const Hash hash : {Hash::old, Hash::gnu}) {
            make(linked, hash);
            EXPECT_EQ(found("first"), 0x20);
            EXPECT_EQ(found("second"), 0x30);
            EXPECT_EQ(found("third"), 0x40) << "the last one";
            EXPECT_EQ(found("absent"), -1);
            EXPECT_EQ(found("fourth"), -1);
            EXPECT_EQ(found("thir"), -1);
        }
}

TEST_F(VdsoTest, ItEndsWithTheLastChain) {
    make(0, Hash::gnu);
    image_.gnu_hash[11] = 1; /* number 3 ends the last chain: there is no fourth */
    EXPECT_EQ(found("second"), 0x30);
    EXPECT_EQ(found("third"), -1);
    image_.gnu_hash[9] = 1;
    image_.gnu_hash[6] = 1;
    image_.gnu_hash[8] = 0;
    image_.symbols[1].st_shndx = 1;
    EXPECT_EQ(found("absent"), 0x10) << "the only one";
    EXPECT_EQ(found("first"), -1);
    image_.gnu_hash[6] = 0;
    EXPECT_EQ(found("second"), -1) << "no chain, no symbol with a hash";
}

TEST_F(VdsoTest, NothingIsFoundInWhatIsNone) {
    make(0, Hash::none);
    EXPECT_EQ(found("first"), -1);
    make(0, Hash::old);
    image_.header.e_ident[1] = 'X';
    EXPECT_EQ(found("first"), -1);
    make(0, Hash::old);
    image_.header.e_phentsize++;
    EXPECT_EQ(found("first"), -1);
    for (const int missing : {0, 1}) {
        make(0, Hash::old);
        image_.dynamic[missing].d_tag = DT_DEBUG;
        EXPECT_EQ(found("first"), -1);
    }
    make(0, Hash::old);
    image_.segments[1].p_type = PT_NOTE;
    EXPECT_EQ(found("first"), -1);
    image = 0;
    EXPECT_EQ(found("first"), -1);
}

} // namespace
} // namespace plumb
