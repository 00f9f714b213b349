// cmake-once
/* Names of addresses, out of files that are made here: symbols of both tables, functions of a file that was stripped, what belongs
 * to another build, and what is no such file at all. And which of a process's objects an address is in. */
#include "trace/symbols.h"

#include "tests/support/sample_trace.h"
#include "trace/debug_file.h"
#include "trace/stack_frames.h"
#include "trace/trace_reader.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <plumb/abi/frame_name.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace plumb {
namespace {

using test::Payload;
using ::testing::ElementsAre;

struct Symbol {
    uint64_t address, size;
    std::string name;
    unsigned char type = STT_FUNC;
    Elf64_Half section = 1;
};

/* A file as the linker makes it, as far as names need one. */
struct File {
    std::vector<Symbol> symbols{}, dynamic{};
    std::string note_name{"GNU", 4};
    uint32_t note_type = NT_GNU_BUILD_ID;
    std::string build_id{"\x01\xab\x00\xff", 4};
    std::vector<Elf64_Phdr> segments{};
    std::vector<int32_t> starts{}; /* from where the table stands */
    uint8_t table_version = 1, frame_encoding = 0x1b, count_encoding = 0x03, table_encoding = 0x3b;
    int more_counted = 0;
    uint64_t entry_size = sizeof(Elf64_Sym);
    static constexpr uint64_t table_address = 0x5000;

    static std::string bytes_of(const void* data, std::size_t size) {
        return {static_cast<const char*>(data), size};
    }
    template <typename T>
    static void add(std::string& bytes, const T& value) {
        bytes += bytes_of(&value, sizeof value);
    }

    std::string made() const {
        Elf64_Ehdr header{};
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_ident[EI_VERSION] = EV_CURRENT;
        header.e_type = ET_DYN;
        header.e_machine = EM_X86_64;
        header.e_version = EV_CURRENT;
        header.e_ehsize = sizeof header;
        header.e_phentsize = sizeof(Elf64_Phdr);
        header.e_shentsize = sizeof(Elf64_Shdr);
        std::vector<Elf64_Phdr> all = segments;
        std::string names(1, '\0'), content;
        std::vector<Elf64_Shdr> sections(1);
        const std::size_t segment_count = segments.size() + (starts.empty() ? 0 : 1);
        const std::size_t content_at = sizeof header + segment_count * sizeof(Elf64_Phdr);
        const auto section = [&](Elf64_Word type, const std::string& bytes, uint64_t of_one = 0) {
            content.resize((content.size() + 7) & ~std::size_t{7});
            Elf64_Shdr one{};
            one.sh_type = type;
            one.sh_offset = content_at + content.size();
            one.sh_size = bytes.size();
            one.sh_entsize = of_one;
            one.sh_addralign = 4;
            one.sh_link = 1;
            sections.push_back(one);
            content += bytes;
        };
        const auto table = [&](const std::vector<Symbol>& listed) {
            std::string bytes(sizeof(Elf64_Sym), '\0');
            for (const Symbol& symbol : listed) {
                Elf64_Sym one{};
                one.st_name = static_cast<Elf64_Word>(names.size());
                one.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, symbol.type));
                one.st_shndx = symbol.section;
                one.st_value = symbol.address;
                one.st_size = symbol.size;
                add(bytes, one);
                names += symbol.name + '\0';
            }
            return bytes;
        };
        const std::string full = table(symbols), exported = table(dynamic);
        section(SHT_STRTAB, names);
        section(SHT_SYMTAB, full, entry_size);
        section(SHT_DYNSYM, exported, entry_size);
        std::string notes;
        for (const bool is_it : {false, true}) { /* another one stands before it */
            const std::string text = is_it ? build_id : "1234";
            add(notes, Elf64_Nhdr{static_cast<Elf64_Word>(note_name.size()),
                                  static_cast<Elf64_Word>(text.size()), is_it ? note_type : NT_GNU_ABI_TAG});
            notes += note_name + text;
            notes.resize((notes.size() + 3) & ~std::size_t{3});
        }
        section(SHT_NOTE, notes);
        if (!starts.empty()) {
            content.resize((content.size() + 7) & ~std::size_t{7});
            Elf64_Phdr unwinding{};
            unwinding.p_type = PT_GNU_EH_FRAME;
            unwinding.p_offset = content_at + content.size();
            unwinding.p_vaddr = table_address;
            std::string rows;
            for (const uint8_t byte : {table_version, frame_encoding, count_encoding, table_encoding})
                add(rows, byte);
            add(rows, int32_t{77});
            add(rows, static_cast<uint32_t>(static_cast<int>(starts.size()) + more_counted));
            for (const int32_t start : starts) {
                add(rows, start);
                add(rows, int32_t{99});
            }
            unwinding.p_filesz = rows.size();
            content += rows;
            all.push_back(unwinding);
        }
        content.resize((content.size() + 7) & ~std::size_t{7});
        header.e_phnum = static_cast<Elf64_Half>(all.size());
        header.e_phoff = sizeof header;
        header.e_shnum = static_cast<Elf64_Half>(sections.size());
        header.e_shoff = content_at + content.size();
        std::string bytes;
        add(bytes, header);
        for (const Elf64_Phdr& each : all)
            add(bytes, each);
        bytes += content;
        for (const Elf64_Shdr& each : sections)
            add(bytes, each);
        return bytes;
    }
};

Elf64_Phdr loaded(uint64_t address, uint64_t size, Elf64_Word flags) {
    Elf64_Phdr segment{};
    segment.p_type = PT_LOAD;
    segment.p_flags = flags;
    segment.p_vaddr = address;
    segment.p_memsz = size;
    return segment;
}

class SymbolsOfFiles : public testing::Test {
protected:
    SymbolsOfFiles() {
        std::string name = testing::TempDir() + "symbols-XXXXXX";
        folder = ::mkdtemp(name.data());
    }
    ~SymbolsOfFiles() override { std::filesystem::remove_all(folder); }
    std::string write(const std::string& bytes, const std::string& name = "file") {
        const std::string path = folder + "/" + name;
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    }
    SymbolTable table(const File& file, const std::string& build_id = "") {
        return SymbolTable::load(write(file.made()), build_id);
    }
    std::string folder;
};

TEST_F(SymbolsOfFiles, AreNamedByTheNearestThatTheAddressIsIn) {
    File file;
    file.symbols = {{0x2000, 0x100, "outer"}, {0x1000, 0x10, "f"},
                    {0x2010, 0x8, "inner"},   {0x2020, 0x8, "object", STT_OBJECT},
                    {0x3000, 0, "label"},     {0x4000, 8, "_ZN3abc3fooEi"}};
    file.dynamic = {{0x1800, 0x10, "exported"}};
    const SymbolTable names = table(file);
    EXPECT_FALSE(names.empty());
    const std::pair<uint64_t, const char*> cases[] = {{0x0fff, ""},
                                                      {0x1000, "f"},
                                                      {0x1001, "f+0x1"},
                                                      {0x100f, "f+0xf"},
                                                      {0x1010, ""},
                                                      {0x17ff, ""},
                                                      {0x1800, "exported"},
                                                      {0x180f, "exported+0xf"},
                                                      {0x1810, ""},
                                                      {0x2000, "outer"},
                                                      {0x200f, "outer+0xf"},
                                                      {0x2010, "inner"},
                                                      {0x2017, "inner+0x7"},
                                                      {0x2018, "outer+0x18"},
                                                      {0x2020, "object"},
                                                      {0x2028, "outer+0x28"},
                                                      {0x20ff, "outer+0xff"},
                                                      {0x2100, ""},
                                                      {0x3000, "label"},
                                                      {0x3001, ""},
                                                      {0x4004, "abc::foo(int)+0x4"}};
    for (const auto& [address, name] : cases)
        EXPECT_EQ(names.name_at(address), name) << std::hex << address;
}

TEST_F(SymbolsOfFiles, AreThoseThatTheFileHasItself) {
    File file;
    file.symbols = {{0x1000, 16, "undefined", STT_FUNC, SHN_UNDEF},
                    {0x1100, 16, "section", STT_SECTION},
                    {0x1200, 16, "file", STT_FILE},
                    {0x1300, 16, "nothing", STT_NOTYPE},
                    {0x1400, 16, "", STT_FUNC},
                    {0x1500, 16, "last", STT_FUNC, SHN_ABS}};
    const SymbolTable names = table(file);
    for (uint64_t address = 0x1000; address < 0x1500; address += 0x100)
        EXPECT_EQ(names.name_at(address), "");
    EXPECT_EQ(names.name_at(0x1500), "last");
    file.entry_size = 0;
    EXPECT_TRUE(table(file).empty()) << "nobody says where one ends";
}

TEST_F(SymbolsOfFiles, AreOfTheBuildThatWasRecorded) {
    File file;
    file.symbols = {{0x1000, 16, "f"}};
    EXPECT_EQ(SymbolFile(write(file.made())).build_id(), "01ab00ff");
    EXPECT_EQ(table(file, "01ab00ff").name_at(0x1000), "f");
    EXPECT_TRUE(table(file, "01ab00fe").empty());
    EXPECT_TRUE(table(file, "01ab00ff00").empty());
    EXPECT_FALSE(table(file, "").empty()) << "nobody said which";
    file.note_name = std::string("Gnu", 4);
    EXPECT_EQ(SymbolFile(write(file.made())).build_id(), "");
    EXPECT_TRUE(table(file, "01ab00ff").empty());
    file.note_name = std::string("GNUX", 5);
    EXPECT_EQ(SymbolFile(write(file.made())).build_id(), "");
    file = {};
    file.note_type = NT_GNU_GOLD_VERSION;
    EXPECT_EQ(SymbolFile(write(file.made())).build_id(), "");
}

TEST_F(SymbolsOfFiles, AreNoneWhereThereIsNoSuchFile) {
    EXPECT_FALSE(SymbolFile(folder + "/none").is_open());
    EXPECT_FALSE(SymbolFile(folder).is_open());
    EXPECT_FALSE(SymbolFile(write("")).is_open());
    EXPECT_FALSE(SymbolFile(write("no such file, but a text that is long enough")).is_open());
    EXPECT_FALSE(SymbolFile(write("!<arch>\n")).is_open()) << "an archive";
    EXPECT_TRUE(SymbolTable::load(write("text"), "").empty());
    File file;
    file.symbols = {{0x1000, 16, "f"}};
    const std::string whole = file.made();
    for (std::size_t size = 0; size < whole.size(); size++) {
        const SymbolTable cut = SymbolTable::load(write(whole.substr(0, size)), "");
        EXPECT_THAT(cut.name_at(0x1000), testing::AnyOf("", "f"));
    }
}

TEST_F(SymbolsOfFiles, BeginWhereTheFirstPageIsLoaded) {
    File file;
    file.segments = {loaded(0x3010, 0x100, PF_R), loaded(0x2345, 0x100, PF_R | PF_X),
                     loaded(0x4000, 0x10, PF_X), loaded(0x6000, 0, PF_X), loaded(0x7000, 0x10, PF_R | PF_W)};
    Elf64_Phdr other = loaded(0x100, 0x10, PF_X);
    other.p_type = PT_NOTE;
    file.segments.push_back(other);
    const SymbolFile opened(write(file.made()));
    EXPECT_EQ(opened.first_address(), 0x2000u);
    std::string code;
    for (const AddressRange& range : opened.code())
        code += fmt::format("{:x}..{:x} ", range.begin, range.end);
    EXPECT_EQ(code, "2345..2445 4000..4010 ");
    file.segments.clear();
    EXPECT_EQ(SymbolFile(write(file.made())).first_address(), 0u);
    EXPECT_TRUE(SymbolFile(write(file.made())).code().empty());
}

TEST_F(SymbolsOfFiles, OfAStrippedFileAreWhereItsFunctionsBegin) {
    File file;
    file.segments = {loaded(0x2000, 0x1000, PF_R | PF_X)};
    file.starts = {-0x2f00, 0x100, -0x2e00, -0x3100}; /* from 0x5000 */
    const SymbolFile opened(write(file.made()));
    EXPECT_THAT(opened.function_starts(), ElementsAre(0x1f00, 0x2100, 0x2200, 0x5100));
    const SymbolTable names = table(file);
    EXPECT_FALSE(names.empty());
    const std::pair<uint64_t, const char*> cases[] = {{0x1eff, ""},        {0x1f00, ""},
                                                      {0x1fff, ""},        {0x2000, "fn_1f00+0x100"},
                                                      {0x2100, "fn_2100"}, {0x21ff, "fn_2100+0xff"},
                                                      {0x2200, "fn_2200"}, {0x2fff, "fn_2200+0xdff"},
                                                      {0x3000, ""}};
    for (const auto& [address, name] : cases) {
        EXPECT_EQ(names.function_at(address), name) << std::hex << address;
        EXPECT_EQ(names.name_at(address), "");
    }
    file.segments = {loaded(0x1000, 0x1000, PF_R | PF_X)};
    EXPECT_EQ(table(file).function_at(0x1eff), "") << "before the first";
    file.more_counted = -1;
    EXPECT_THAT(SymbolFile(write(file.made())).function_starts(), ElementsAre(0x2100, 0x2200, 0x5100));
    const auto none = [&](auto change) {
        File other = file;
        other.more_counted = 0;
        change(other);
        EXPECT_TRUE(SymbolFile(write(other.made())).function_starts().empty());
        EXPECT_TRUE(table(other).empty());
        EXPECT_EQ(table(other).function_at(0x1f00), "");
    };
    none([](File& f) { f.more_counted = 1; });
    none([](File& f) { f.table_version = 2; });
    none([](File& f) { f.frame_encoding = 0x3b; });
    none([](File& f) { f.count_encoding = 0x02; });
    none([](File& f) { f.table_encoding = 0x1b; });
    none([](File& f) { f.starts.clear(); });
}

TEST(DebugFiles, AreOfBuildIdsInHexadecimalAlone) {
    ::unsetenv("DEBUGINFOD_URLS");
    for (const std::string id :
         {"", "ab", "../../../etc/passwd", "0123456789abcdef0123456789abcdef01234567", "ab cd", "xyz"})
        EXPECT_EQ(debug_file_of(id), "") << id;
    EXPECT_EQ(debug_file_of(std::string(129, 'a')), "");
}

/* Processes and objects as the statedump tells of them. */
class SymbolsOfProcesses : public SymbolsOfFiles {
protected:
    void process(uint32_t id, uint32_t parent) {
        who.event(ctf_statedump_process, at++, id,
                  Payload().add(id).add(parent).add(0u).string("p").string("/p"));
    }
    void runs(uint32_t id, uint32_t parent, const std::string& executable) {
        who.event(ctf_statedump_process, at++, id,
                  Payload().add(id).add(parent).add(0u).string("p").string(executable));
    }
    void object(uint32_t id, uint64_t base, uint64_t size, const std::string& path,
                const std::string& build_id = "") {
        who.event(ctf_statedump_object, at++, id,
                  Payload().add(id).add(base).add(size).string(build_id).string(path));
    }
    std::string name(uint32_t process_id, uint64_t address, int64_t time_ns = INT64_MAX) {
        return name(process_id, address, time_ns, false);
    }
    std::string name_behind(uint32_t process_id, uint64_t address) {
        return name(process_id, address, INT64_MAX, true);
    }
    std::string name(uint32_t process_id, uint64_t address, int64_t time_ns, bool is_behind) {
        test::SampleStream copy = who;
        copy.end_packet();
        const std::string metadata = test::SampleMetadata().text();
        Result<TraceReader> reader = TraceReader::from_memory({metadata, {copy.bytes()}});
        if (!reader) return reader.error().message();
        const Event* const event = reader->next();
        const TraceNames& names = reader->names_of(*event);
        return is_behind ? symbols.name_behind(names, process_id, address, time_ns).name
                         : symbols.name_at(names, process_id, address, time_ns);
    }
    uint64_t at = 1;
    test::SampleStream who{ctf_stream_statedump, 0};
    Symbols symbols;
};

TEST_F(SymbolsOfProcesses, AreOfTheObjectThatTheAddressIsIn) {
    File file;
    file.segments = {loaded(0x1000, 0x2000, PF_R | PF_X)};
    file.symbols = {{0x1100, 0x10, "f"}, {0x2100, 0x10, "g"}};
    const std::string path = write(file.made(), "named");
    File stripped;
    stripped.segments = {loaded(0x1000, 0x9000, PF_R | PF_X)};
    stripped.starts = {-0x3000};
    const std::string bare = write(stripped.made(), "bare");
    object(5, 0x700000, 0x2000, path);
    object(5, 0x800000, 0x9000, bare);
    object(5, 0x900000, 0x1000, folder + "/none");
    object(6, 0x700000, 0x1000, "/other/file");
    EXPECT_EQ(name(5, 0x700100), "f");
    EXPECT_EQ(name(5, 0x700104), "f+0x4");
    EXPECT_EQ(name(5, 0x700000), "named+0x0");
    EXPECT_EQ(name(5, 0x701fff), "named+0x1fff");
    EXPECT_EQ(name(5, 0x6fffff), "0x6fffff");
    EXPECT_EQ(name(5, 0x702000), "0x702000");
    EXPECT_EQ(name(5, 0x801000), "bare:fn_2000");
    EXPECT_EQ(name(5, 0x801004), "bare:fn_2000+0x4");
    EXPECT_EQ(name(5, 0x800ffc), "bare+0xffc") << "before the first function";
    EXPECT_EQ(name(5, 0x900010), "none+0x10");
    EXPECT_EQ(name(6, 0x700100), "file+0x100");
    EXPECT_EQ(name(7, 0x700100), "0x700100");
    EXPECT_EQ(name(0, 0x700100), "0x700100");
}

TEST_F(SymbolsOfProcesses, OfFramesInMadeCodeAreNamesAndLines) {
    const uint64_t go = PLUMB_FRAME_OF(0x123456789abcu, 0), other = PLUMB_FRAME_OF(0x123456789abdu, 0);
    object(5, go, PLUMB_FRAME_LINES, "shop.Cart.go");
    EXPECT_EQ(name_behind(5, go), "shop.Cart.go");
    EXPECT_EQ(name_behind(5, go + 214), "shop.Cart.go:214");
    EXPECT_EQ(name_behind(5, go + 65535), "shop.Cart.go:65535");
    EXPECT_EQ(name_behind(6, go + 1), "shop.Cart.go:1") << "in every process";
    EXPECT_EQ(name_behind(5, other + 7), fmt::format("0x{:x}", other + 7)) << "not told";
}

TEST(FramesOfStacks, HaveFunctions) {
    EXPECT_EQ(function_of_frame("shop.Cart.go:214"), "shop.Cart.go");
    EXPECT_EQ(function_of_frame("shop.Cart.go"), "shop.Cart.go");
    EXPECT_EQ(function_of_frame("shop::Cart::go(int)+0x12"), "shop::Cart::go(int)");
    EXPECT_EQ(function_of_frame("memcached:fn_1200+0x10"), "memcached:fn_1200");
    EXPECT_EQ(function_of_frame("0x7f0012345678"), "0x7f0012345678");
}

TEST_F(SymbolsOfProcesses, AreThoseOfTheNewestObjectThere) {
    object(5, 0x1000, 0x1000, "/old");
    object(5, 0x1000, 0x1000, "/new");
    object(5, 0x5000, 0x1000, "/other");
    EXPECT_EQ(name(5, 0x1001), "new+0x1");
}

TEST_F(SymbolsOfProcesses, AreTheParentsWhereAProcessLoadedNothing) {
    object(10, 0x1000, 0x1000, "/of/10");
    for (uint32_t id = 11; id < 30; id++) {
        process(id, id - 1);
        if (id == 12) object(12, 0x2000, 0x1000, "/of/12");
    }
    EXPECT_EQ(name(11, 0x1001), "10+0x1");
    EXPECT_EQ(name(13, 0x2001), "12+0x1");
    EXPECT_EQ(name(13, 0x1001), "10+0x1");
    EXPECT_EQ(name(11, 0x2001), "0x2001") << "a child's is none of its parent's";
    EXPECT_EQ(name(29, 0x1001), "0x1001") << "generations are bounded: parents may be a ring";
}

TEST_F(SymbolsOfProcesses, AreOfTheTimeThatIsAskedFor) {
    runs(10, 1, "/bin/first");                 /* 1 */
    object(10, 0x1000, 0x1000, "/bin/first");  /* 2 */
    runs(10, 1, "/bin/second");                /* 3 */
    object(10, 0x1000, 0x1000, "/bin/second"); /* 4 */
    object(10, 0x5000, 0x1000, "/lib/a");      /* 5 */
    object(10, 0x5000, 0x2000, "/lib/b");      /* 6 */
    EXPECT_EQ(name(10, 0x1001, 2), "first+0x1");
    EXPECT_EQ(name(10, 0x5001, 2), "0x5001") << "what a later program has";
    EXPECT_EQ(name(10, 0x1001, 3), "second+0x1") << "told a moment later";
    EXPECT_EQ(name(10, 0x1001, 4), "second+0x1");
    EXPECT_EQ(name(10, 0x5001, 4), "a+0x1") << "the recorder has found it then";
    EXPECT_EQ(name(10, 0x5001, 5), "a+0x1");
    EXPECT_EQ(name(10, 0x5001, 6), "b+0x1");
}

TEST_F(SymbolsOfProcesses, OfAParentAreThoseOfTheFork) {
    runs(10, 1, "/bin/p");                /* 1 */
    object(10, 0x1000, 0x1000, "/lib/a"); /* 2 */
    runs(11, 10, "/bin/p");               /* 3 */
    object(10, 0x1000, 0x1000, "/lib/b"); /* 4 */
    object(10, 0x8000, 0x1000, "/lib/c"); /* 5 */
    runs(11, 10, "/bin/p");               /* 6: another runtime in it */
    EXPECT_EQ(name(11, 0x1001), "a+0x1");
    EXPECT_EQ(name(11, 0x8001), "0x8001");
    EXPECT_EQ(name(10, 0x1001), "b+0x1");
    EXPECT_EQ(name(10, 0x8001), "c+0x1");
    object(11, 0x1000, 0x1000, "/lib/d"); /* 7 */
    EXPECT_EQ(name(11, 0x1001, 6), "a+0x1") << "it had that of its parent until then";
    EXPECT_EQ(name(11, 0x1001, 7), "d+0x1");
}

TEST_F(SymbolsOfProcesses, AreNotOfAFileThatWasReplaced) {
    File file;
    file.segments = {loaded(0x1000, 0x1800, PF_R | PF_X)};
    file.segments[0].p_filesz = 0x300;
    file.symbols = {{0x1100, 0x10, "f"}};
    const std::string path = write(file.made(), "named");
    object(5, 0x10000, 0x1800, path); /* its clock knows no date */
    object(5, 0x20000, 0x1000, path); /* the pages of the file alone */
    object(6, 0x30000, 0x1800, path, "01ab00ff");
    EXPECT_EQ(name(5, 0x10100), "f");
    EXPECT_EQ(name(5, 0x20100), "f");
    EXPECT_THAT(symbols.problems(), ElementsAre());
    object(5, 0x40000, 0x2800, path);
    EXPECT_EQ(name(5, 0x40100), "named+0x100");
    EXPECT_THAT(symbols.problems(),
                ElementsAre(path + " gives no names: it has no build id, and has another size in memory "
                                   "than what was traced."));
    symbols = {};
    constexpr uint64_t in_2001 = 1'000'000'000'000'000'000, in_2096 = 4'000'000'000'000'000'000;
    at = in_2001;
    object(5, 0x50000, 0x1800, path);
    object(6, 0x50000, 0x1800, path, "01ab00ff");
    at = in_2096;
    object(5, 0x60000, 0x1800, path);
    EXPECT_EQ(name(5, 0x60100), "f");
    EXPECT_EQ(name(6, 0x50100), "f") << "the build id says that it is the one";
    EXPECT_THAT(symbols.problems(), ElementsAre());
    EXPECT_EQ(name(5, 0x50100), "named+0x100");
    EXPECT_EQ(name(5, 0x50101), "named+0x101");
    EXPECT_THAT(symbols.problems(), ElementsAre(path + " gives no names: it has no build id, and was changed "
                                                       "since it was traced."));
}

TEST_F(SymbolsOfProcesses, AreNotThoseOfTheProgramBeforeExec) {
    runs(10, 1, "/bin/sh");
    object(10, 0x1000, 0x1000, "/bin/sh");
    runs(11, 10, "/bin/sh");
    runs(12, 10, "/bin/sh");
    object(12, 0x3000, 0x1000, "/lib/early");
    runs(12, 10, "/bin/shop");
    object(12, 0x5000, 0x1000, "/bin/shop");
    runs(13, 12, "/bin/shop");
    runs(12, 10, "/bin/last");
    object(12, 0x7000, 0x1000, "/bin/last");
    runs(10, 1, "/bin/another");
    object(10, 0x9000, 0x1000, "/bin/another");
    EXPECT_EQ(name(11, 0x1001), "sh+0x1") << "it was its parent's then";
    EXPECT_EQ(name(11, 0x9001), "0x9001") << "what its parent ran later";
    EXPECT_EQ(name(12, 0x7001), "last+0x1");
    EXPECT_EQ(name(12, 0x1001), "0x1001") << "what its parent runs";
    EXPECT_EQ(name(12, 0x3001), "0x3001") << "what it had before";
    EXPECT_EQ(name(12, 0x5001), "0x5001");
    EXPECT_EQ(name(13, 0x5001), "shop+0x1");
    EXPECT_EQ(name(13, 0x7001), "0x7001");
    EXPECT_EQ(name(13, 0x1001), "0x1001");
    EXPECT_EQ(name(10, 0x9001), "another+0x1");
}

} // namespace
} // namespace plumb
