#include "models/files/gguf.h"

#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::raw;
using test::TempDir;

class GgufTest : public testing::Test {
 protected:
  Gguf open(const GgufWriter& writer) { return open(writer.bytes()); }
  Gguf open(const std::string& bytes) { return Gguf::open(dir_.write("m.gguf", bytes)); }
  TempDir dir_;
};

TEST_F(GgufTest, ReadsEveryValueType) {
  GgufWriter w;
  w.key("u8", 0, raw<std::uint8_t>(200));
  w.key("i8", 1, raw<std::int8_t>(-3));
  w.key("u16", 2, raw<std::uint16_t>(60000));
  w.key("i16", 3, raw<std::int16_t>(-30000));
  w.u32("u32", 4000000000u);
  w.key("i32", 5, raw<std::int32_t>(-5));
  w.f32("f32", 0.5f);
  w.boolean("yes", true);
  w.text("text", "h\xc3\xa9");
  w.key("u64", 10, raw<std::uint64_t>(1ull << 40));
  w.key("i64", 11, raw<std::int64_t>(-(1ll << 40)));
  w.key("f64", 12, raw<double>(0.1));
  w.i32s("i32s", {1, -2, 3});
  w.texts("texts", {"a", "", "bc"});
  w.array("f32s", 6, 2, raw(1.5f) + raw(-2.0f));
  w.array("bools", 7, 3, std::string("\1\0\1", 3));
  w.array("nested", 9, 2,
          raw(5u) + raw<std::uint64_t>(1) + raw(7) + raw(8u) + raw<std::uint64_t>(1) + w.string("x"));
  w.array("none", 8, 0, "");

  const Gguf file = open(w);
  const GgufMetadata& m = file.metadata();
  EXPECT_EQ(m.entries().size(), 18u);
  EXPECT_EQ(m.integer("u8"), 200);
  EXPECT_EQ(m.integer("i8"), -3);
  EXPECT_EQ(m.integer("u16"), 60000);
  EXPECT_EQ(m.integer("i16"), -30000);
  EXPECT_EQ(m.integer("u32"), 4000000000);
  EXPECT_EQ(m.integer("i32"), -5);
  EXPECT_EQ(m.number("f32"), 0.5);
  EXPECT_EQ(m.number("u8"), 200.0);
  EXPECT_TRUE(m.boolean("yes"));
  EXPECT_EQ(m.text("text"), "h\xc3\xa9");
  EXPECT_EQ(m.integer("u64"), 1ll << 40);
  EXPECT_EQ(m.integer("i64"), -(1ll << 40));
  EXPECT_EQ(m.number("f64"), 0.1);
  EXPECT_EQ(m.integers("i32s"), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(m.strings("texts"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(m.numbers("f32s"), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(m.numbers("i32s"), (std::vector<float>{1, -2, 3}));
  EXPECT_EQ(m.booleans("bools"), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(m.find("nested")->arrays[1].strings[0], "x");
  EXPECT_EQ(m.strings("none").size(), 0u);
  EXPECT_EQ(m.integer_or("absent", 9), 9);

  EXPECT_LOAD_ERROR(m.integer("text"), "m.gguf: text: expected an integer below 2^63, found string");
  EXPECT_LOAD_ERROR(m.integer("f32"), "found f32");
  EXPECT_LOAD_ERROR(m.integer("i32s"), "found array of i32");
  EXPECT_LOAD_ERROR(m.number("text"), "expected a number");
  EXPECT_LOAD_ERROR(m.number("i32s"), "expected a number");
  EXPECT_LOAD_ERROR(m.text("u8"), "expected a string");
  EXPECT_LOAD_ERROR(m.strings("i32s"), "expected an array of strings");
  EXPECT_LOAD_ERROR(m.integers("texts"), "expected an array of integers");
  EXPECT_LOAD_ERROR(m.numbers("texts"), "expected an array of numbers");
  EXPECT_LOAD_ERROR(m.booleans("i32s"), "expected an array of bools");
  EXPECT_LOAD_ERROR(m.integers("u8"), "expected an array");
  EXPECT_LOAD_ERROR(m.text("absent"), "absent: this key is missing");
  EXPECT_LOAD_ERROR(m.boolean("u8"), "expected a bool");
}

TEST_F(GgufTest, RefusesIntegersPast63Bits) {
  GgufWriter w;
  w.key("big", 10, raw<std::uint64_t>(1ull << 63));
  EXPECT_LOAD_ERROR(open(w).metadata().integer("big"), "below 2^63");
}

TEST_F(GgufTest, PlacesTensorsInHuggingFaceOrder) {
  for (const std::uint32_t version : {2u, 3u}) {
    for (const std::uint64_t alignment : {8u, 32u, 128u}) {
      GgufWriter w;
      w.version = version;
      w.alignment = alignment;
      w.u32("general.alignment", static_cast<std::uint32_t>(alignment));
      w.tensor("a", 0, {2, 3}, test::raw_f32({1, 2, 3, 4, 5, 6}));
      w.tensor("q", 8, {1, 32}, std::string(34, 'x'));
      w.tensor("k", 14, {2, 256}, std::string(420, 'y'));
      w.tensor("scalar", 30, {}, "zz");
      const Gguf file = open(w);
      EXPECT_EQ(file.version(), version);
      const StoredTensor* a = file.tensors().find("a");
      ASSERT_NE(a, nullptr);
      EXPECT_EQ(a->shape, (Shape{2, 3}));
      EXPECT_EQ(a->type, DType::kF32);
      EXPECT_EQ(std::memcmp(a->bytes.data(), test::raw_f32({1, 2, 3, 4, 5, 6}).data(), 24), 0);
      EXPECT_EQ(file.tensors().find("q")->type, DType::kQ8_0);
      EXPECT_EQ(file.tensors().find("k")->bytes.size(), 420u);
      EXPECT_EQ(file.tensors().find("scalar")->bytes.size(), 2u);
      EXPECT_EQ(file.tensors().find("b"), nullptr);
    }
  }
}

TEST_F(GgufTest, RefusesOtherFiles) {
  EXPECT_LOAD_ERROR(open(std::string()), "the file ends at byte 0");
  EXPECT_LOAD_ERROR(open(std::string("GGML") + std::string(60, '\0')), "is not a GGUF file");
  GgufWriter w;
  w.version = 1;
  EXPECT_LOAD_ERROR(open(w), "is version 1");
  w.version = 4;
  EXPECT_LOAD_ERROR(open(w), "is version 4");
  w.version = 0x03000000;
  EXPECT_LOAD_ERROR(open(w), "big endian");
}

TEST_F(GgufTest, BelievesNoCountThatTheFileCannotHold) {
  const std::string head = "GGUF" + raw(3u);
  EXPECT_LOAD_ERROR(open(head + raw<std::uint64_t>(1ull << 60) + raw<std::uint64_t>(0)), "claims");
  EXPECT_LOAD_ERROR(open(head + raw<std::uint64_t>(0) + raw<std::uint64_t>(UINT64_MAX)), "claims");
  for (const std::uint32_t type : {0u, 6u, 8u, 9u, 12u}) {
    GgufWriter w;
    w.array("huge", type, UINT64_MAX / 8, "");
    EXPECT_LOAD_ERROR(open(w), "huge: claims");
  }
  GgufWriter w;
  w.key("s", 8, raw(UINT64_MAX));
  EXPECT_LOAD_ERROR(open(w), "s: the file ends");
  std::string nested;
  for (int i = 0; i < 6; ++i) nested += raw(9u) + raw<std::uint64_t>(1);
  GgufWriter deep;
  deep.key("deep", 9, nested + raw(0u) + raw<std::uint64_t>(0));
  EXPECT_LOAD_ERROR(open(deep), "nested too deeply");
  std::string many;
  for (int i = 0; i < 70000; ++i) many += raw(0u) + raw<std::uint64_t>(0);
  GgufWriter wide;
  wide.array("wide", 9, 70000, many);
  EXPECT_LOAD_ERROR(open(wide), "too many arrays in arrays");
}

TEST_F(GgufTest, RefusesWhatContradictsItself) {
  const auto with = [&](auto change) {
    GgufWriter w;
    w.u32("k", 1);
    w.tensor("a", 0, {8}, std::string(32, 'a'));
    change(w);
    return w;
  };
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.u32("k", 2); })), "k: this key is there twice");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.tensor("a", 0, {1}, "1234"); })),
                    "two tensors of this name");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.info("b", 0, {8}, 4096); })), "b: bytes");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.info("b", 0, {8}, UINT64_MAX - 31); })), "b: ");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.info("b", 0, {8}, 0); })), "overlaps");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.info("b", 0, {8}, 4); })), "is not a multiple of 32");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.info("b", 5, {8}, 0); })), "unknown type 5");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) {
                      w.info("b", 12, {2, 255}, 0);
                    })),
                    "not a possible size for Q4_K");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) {
                      w.info("b", 0, {1ull << 40, 1ull << 40}, 0);
                    })),
                    "not a possible");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.info("b", 0, {1, 1, 1, 1, 1}, 0); })), "5 dimensions");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.u32("general.alignment", 48); })), "power of two");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.u32("general.alignment", 0); })), "power of two");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.key("x", 13, ""); })), "unknown value type 13");
  EXPECT_LOAD_ERROR(open(with([](GgufWriter& w) { w.u32("", 1); })), "empty name");
}

TEST_F(GgufTest, JoinsSplitFiles) {
  const auto part = [&](int number, int count, const std::string& tensor) {
    GgufWriter w;
    w.text("general.architecture", "llama");
    w.key("split.no", 2, raw(static_cast<std::uint16_t>(number)));
    w.key("split.count", 2, raw(static_cast<std::uint16_t>(count)));
    w.key("split.tensors.count", 5, raw<std::int32_t>(3));
    w.tensor(tensor, 0, {2}, test::raw_f32({float(number), 1}));
    return w.bytes();
  };
  const auto first = dir_.write("x-00001-of-00003.gguf", part(0, 3, "a"));
  dir_.write("x-00002-of-00003.gguf", part(1, 3, "b"));
  EXPECT_LOAD_ERROR(Gguf::open(first), "x-00003-of-00003.gguf: cannot be opened");
  dir_.write("x-00003-of-00003.gguf", part(2, 3, "b"));
  EXPECT_LOAD_ERROR(Gguf::open(first), "00003-of-00003.gguf: b: there are two tensors");
  dir_.write("x-00003-of-00003.gguf", part(1, 3, "c"));
  EXPECT_LOAD_ERROR(Gguf::open(first), "split.no: is not 2");
  dir_.write("x-00003-of-00003.gguf", part(2, 2, "c"));
  EXPECT_LOAD_ERROR(Gguf::open(first), "split.count: is not 3");
  dir_.write("x-00003-of-00003.gguf", part(2, 3, "c"));
  const Gguf file = Gguf::open(first);
  EXPECT_EQ(file.tensors().tensors().size(), 3u);
  const StoredTensor* c = file.tensors().find("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(file.tensors().path_of(*c), (dir_.path() / "x-00003-of-00003.gguf").string());
  // Opened by any part, the metadata is the first part's.
  const Gguf by_second = Gguf::open(dir_.path() / "x-00002-of-00003.gguf");
  EXPECT_EQ(by_second.path(), first.string());
  EXPECT_EQ(by_second.tensors().tensors().size(), 3u);
  EXPECT_LOAD_ERROR(Gguf::open(dir_.write("x-00004-of-00004.gguf", part(3, 4, "d"))),
                    "x-00001-of-00004.gguf: cannot be opened");
  EXPECT_LOAD_ERROR(Gguf::open(dir_.write("y.gguf", part(0, 3, "a"))), "should end in -00001-of-00003.gguf");
  dir_.write("z-00002-of-00002.gguf", part(1, 2, "b"));
  EXPECT_LOAD_ERROR(Gguf::open(dir_.write("z-00001-of-00002.gguf", part(0, 2, "a"))),
                    "says 3, the files have 2");
}

TEST_F(GgufTest, KnowsTheSizesOfAllTypes) {
  // Elements and bytes per block, by the type's id in the file.
  const std::vector<std::tuple<std::uint32_t, std::string, std::uint32_t, std::uint32_t>> kExpected = {
      {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},     {3, "Q4_1", 32, 20},
      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},     {10, "Q2_K", 256, 84},
      {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},  {14, "Q6_K", 256, 210},
      {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98},
      {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},
      {23, "IQ4_XS", 256, 136}, {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},      {34, "TQ1_0", 256, 54},
      {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36}};
  for (const auto& [id, name, size, bytes] : kExpected) {
    const std::optional<DType> type = dtype_of_ggml(id);
    ASSERT_TRUE(type.has_value()) << id;
    EXPECT_EQ(info(*type).name, name);
    EXPECT_EQ(info(*type).block_size, size) << name;
    EXPECT_EQ(info(*type).block_bytes, bytes) << name;
  }
  for (const std::uint32_t id : {4u, 5u, 31u, 38u, 43u, 1000u, UINT32_MAX})
    EXPECT_FALSE(dtype_of_ggml(id)) << id;
}

}  // namespace
}  // namespace reprise::models
