#include "models/files/safetensors.h"

#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

using test::raw;
using test::SafetensorsWriter;
using test::TempDir;

class SafetensorsTest : public testing::Test {
 protected:
  TensorSource open(const SafetensorsWriter& writer) { return open(writer.bytes()); }
  TensorSource open(const std::string& bytes) { return open_safetensors(dir_.write("m.safetensors", bytes)); }
  TensorSource open_header(const std::string& header, const std::string& data = "") {
    return open(raw(std::uint64_t{header.size()}) + header + data);
  }
  TempDir dir_;
};

TEST_F(SafetensorsTest, ReadsTensors) {
  SafetensorsWriter w;
  w.tensor("a", "F32", {2, 2}, test::raw_f32({1, 2, 3, 4}));
  w.tensor("b", "BF16", {3}, test::raw_bf16({1, 2, 3}));
  w.tensor("ids", "I64", {1}, raw<std::int64_t>(7));
  w.tensor("fp4", "F4", {2, 4}, "abcd");
  w.tensor("none", "F16", {0, 5}, "");
  w.tensor("scalar", "F32", {}, raw(1.0f));
  const TensorSource source = open(w);
  EXPECT_EQ(source.tensors().size(), 6u);
  EXPECT_EQ(source.find("a")->shape, (Shape{2, 2}));
  EXPECT_EQ(std::memcmp(source.find("a")->bytes.data(), test::raw_f32({1, 2, 3, 4}).data(), 16), 0);
  EXPECT_EQ(source.find("b")->type, DType::kBF16);
  EXPECT_EQ(source.find("ids")->type, DType::kI64);
  EXPECT_EQ(source.find("none")->bytes.size(), 0u);
  EXPECT_EQ(source.find("scalar")->bytes.size(), 4u);
  EXPECT_EQ(source.find("__metadata__"), nullptr);
}

TEST_F(SafetensorsTest, RefusesBadHeaders) {
  EXPECT_LOAD_ERROR(open(""), "header: bytes 0 to 8");
  EXPECT_LOAD_ERROR(open(raw<std::uint64_t>(100) + "{}"), "header: bytes");
  EXPECT_LOAD_ERROR(open(raw<std::uint64_t>(UINT64_MAX) + "{}"), "claims");
  EXPECT_LOAD_ERROR(open_header("[]"), "not a JSON object");
  EXPECT_LOAD_ERROR(open_header("{"), "invalid JSON");
  EXPECT_LOAD_ERROR(open_header(R"({"a": 1})"), "expected an object");
  EXPECT_LOAD_ERROR(open_header(R"({"a": {"dtype": "F32", "shape": [1]}})"), "a.data_offsets: is missing");
  EXPECT_LOAD_ERROR(open_header(R"({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}})"),
                    "a.dtype: unknown type F99");
  EXPECT_LOAD_ERROR(open_header(R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})"),
                    "a.shape[0]: is negative");
  EXPECT_LOAD_ERROR(open_header(R"({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}})"),
                    "expected an integer");
  EXPECT_LOAD_ERROR(open_header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}})"),
                    "expected [begin, end]");
  EXPECT_LOAD_ERROR(
      open_header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "12345678"),
      "the end lies before");
  EXPECT_LOAD_ERROR(open_header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},)"
                                R"("a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
                                "12345678"),
                    "the key 'a' is there twice");
}

TEST_F(SafetensorsTest, RefusesBadPlaces) {
  const auto with = [](std::string_view shape, std::uint64_t begin, std::uint64_t end) {
    SafetensorsWriter w;
    w.tensor("a", "F32", {4}, std::string(16, 'a'));
    w.entry("b", "F32", shape, begin, end);
    return w;
  };
  EXPECT_LOAD_ERROR(open(with("4", 8, 24)), "b: bytes");
  EXPECT_LOAD_ERROR(open(with("4", 16, 32)), "b: bytes");
  EXPECT_LOAD_ERROR(open(with("2", 8, 16)), "overlaps a");
  EXPECT_LOAD_ERROR(open(with("3", 0, 16)), "has 16 bytes where [3] of F32 takes 12");
  EXPECT_LOAD_ERROR(open(with("4611686018427387904,4", 0, 16)), "no possible number");
  EXPECT_LOAD_ERROR(open(with("9223372036854775807", 0, 16)), "no possible number");
  EXPECT_LOAD_ERROR(open(with("99999999999999999999", 0, 16)), "expected an integer");
}

TEST_F(SafetensorsTest, JoinsShards) {
  const auto shard = [&](const std::string& file, const std::string& tensor) {
    SafetensorsWriter w;
    w.tensor(tensor, "F32", {1}, raw(1.0f));
    dir_.write(file, w.bytes());
  };
  const auto index = [&](const std::string& map) {
    return dir_.write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
  };
  shard("s1.safetensors", "a");
  shard("s2.safetensors", "b");
  const TensorSource source =
      open_safetensors_index(index(R"("a": "s1.safetensors", "b": "s2.safetensors")"));
  EXPECT_EQ(source.tensors().size(), 2u);
  EXPECT_EQ(source.path_of(*source.find("b")), (dir_.path() / "s2.safetensors").string());
  EXPECT_EQ(open_safetensors_folder(dir_.path()).tensors().size(), 2u);

  const auto refuse = [&](const std::string& map, const char* reason) {
    EXPECT_LOAD_ERROR(open_safetensors_index(index(map)), reason);
  };
  refuse(R"("a": "s2.safetensors")", "weight_map.a: there is no such tensor in s2.safetensors");
  refuse(R"("a": "s1.safetensors", "b": "s1.safetensors")", "weight_map.b: there is no such tensor");
  refuse(R"("a": "s3.safetensors")", "s3.safetensors: cannot be opened");
  refuse(R"("a": "../s1.safetensors")", "is not the name of a file");
  refuse(R"("a": "/etc/passwd")", "is not the name of a file");
  refuse(R"("a": "x\u0000y")", "is not the name of a file");
  refuse(R"("a": "..")", "is not the name of a file");
  refuse(R"("a": "")", "is not the name of a file");
  refuse(R"("a": 1)", "expected a string");
  refuse("", "names no tensors");
  shard("s2.safetensors", "a");
  refuse(R"("a": "s1.safetensors", "b": "s2.safetensors")", "two tensors of this name");
}

TEST_F(SafetensorsTest, WantsAFileInTheFolder) {
  EXPECT_LOAD_ERROR(open_safetensors_folder(dir_.path()), "has neither model.safetensors nor");
}

}  // namespace
}  // namespace reprise::models
