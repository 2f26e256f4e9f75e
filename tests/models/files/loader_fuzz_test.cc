// Hostile files: every truncation of a small file, and seeded random damage. A loader may load what is left
// or throw LoadError; anything else (another exception, a crash, a sanitizer's complaint, a view outside the
// file) fails.
//
// REPRISE_FUZZ_CASES sets the number of cases for each loader (default 20000).

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "models/checkpoint.h"
#include "models/files/json_place.h"
#include "models/files/load_error.h"
#include "models/files/safetensors.h"
#include "tests/models/files/loader_invariants.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::raw;
using test::TempDir;
using test::TinyModel;

std::size_t fuzz_cases() {
  const char* text = std::getenv("REPRISE_FUZZ_CASES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20000;
}

// Damages a file in a few random places: flipped bits, special bytes and words, cuts, insertions, moved
// pieces.
std::string mutate(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  const std::size_t changes = 1 + below(4);
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    // Most damage where the loader looks most.
    const std::size_t at =
        below(2) == 0 ? below(bytes.size()) : below(std::min<std::size_t>(bytes.size(), 1024));
    const auto put = [&](const std::string& word) {
      bytes.replace(at, std::min(word.size(), bytes.size() - at), word.substr(0, bytes.size() - at));
    };
    static constexpr std::uint64_t kWords[] = {
        0,          1,          2,          7,          8,
        31,         0x7f,       0xff,       0x100,      0x7fffffff,
        0x80000000, 0xffffffff, 1ull << 32, 1ull << 62, (1ull << 63) - 1,
        1ull << 63, ~0ull,      ~0ull - 31};
    switch (below(9)) {
      case 0:
        bytes.resize(at);
        break;
      case 1: {
        const std::size_t count = 1 + below(16);
        bytes.insert(at, count, static_cast<char>(random()));
        break;
      }
      case 2:
        bytes.erase(at, 1 + below(16));
        break;
      case 3:
        put(raw(kWords[below(std::size(kWords))]));
        break;
      case 4:
        put(raw(static_cast<std::uint32_t>(kWords[below(std::size(kWords))])));
        break;
      case 5:
        bytes[at] = static_cast<char>(random());
        break;
      case 6: {
        const std::size_t from = below(bytes.size());
        put(bytes.substr(from, 1 + below(64)));
        break;
      }
      case 7:
        put("\"{}[],:0-9.eNIn\\u"[below(17)] + std::string());
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
    }
  }
  return bytes;
}

// One file that is rewritten for each case.
class Target {
 public:
  Target(const TempDir& dir, const std::string& name) : path_(dir.path() / name) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  }
  ~Target() { ::close(descriptor_); }
  void write(const std::string& bytes) {
    ASSERT_EQ(::ftruncate(descriptor_, off_t(bytes.size())), 0);
    ASSERT_EQ(::pwrite(descriptor_, bytes.data(), bytes.size(), 0), ssize_t(bytes.size()));
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

template <class Loaded>
void look_at(const Loaded& loaded) {
  ASSERT_EQ(test::fault_of(loaded), "");
}

// Runs every truncation and then the random cases; counts what still loaded.
template <class Load>
void fuzz(const std::string& valid, std::uint64_t seed, std::size_t truncations, Load load) {
  std::size_t loaded = 0;
  std::size_t refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      load(bytes);
      ++loaded;
    } catch (const LoadError& error) {
      ++refused;
      ASSERT_FALSE(error.file().empty());
      ASSERT_FALSE(error.reason().empty());
    }
  };
  attempt(valid);
  ASSERT_EQ(loaded, 1u) << "the undamaged file must load";
  for (std::size_t length = 0; length < std::min(valid.size(), truncations); ++length) {
    attempt(valid.substr(0, length));
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "truncated to " << length;
  }
  std::mt19937_64 random(seed);
  const std::size_t cases = fuzz_cases();
  for (std::size_t i = 0; i < cases; ++i) {
    attempt(mutate(valid, random));
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "case " << i;
  }
  std::printf("%zu loaded, %zu refused\n", loaded, refused);
  EXPECT_GT(refused, 0u);
}

std::string small_gguf() {
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.u32("general.alignment", 32);
  w.texts("tokenizer.ggml.tokens", {"a", "bc", "", "def"});
  w.array("scores", 6, 3, raw(1.0f) + raw(2.0f) + raw(3.0f));
  w.i32s("types", {1, 2, 3});
  w.boolean("flag", true);
  w.array("flags", 7, 3, std::string("\1\0\1", 3));
  w.array("nested", 9, 2,
          raw(5u) + raw<std::uint64_t>(1) + raw(7) + raw(8u) + raw<std::uint64_t>(1) + w.string("x"));
  w.key("big", 10, raw<std::uint64_t>(1ull << 40));
  w.tensor("a.weight", 0, {2, 3}, std::string(24, 'a'));
  w.tensor("b.weight", 8, {2, 32}, std::string(68, 'b'));
  w.tensor("c.weight", 30, {5}, std::string(10, 'c'));
  return w.bytes();
}

TEST(LoaderFuzz, Gguf) {
  const TempDir dir;
  Target target(dir, "m.gguf");
  fuzz(small_gguf(), 1, 4096, [&](const std::string& bytes) {
    target.write(bytes);
    look_at(Gguf::open(target.path()));
  });
}

TEST(LoaderFuzz, Safetensors) {
  const TempDir dir;
  Target target(dir, "m.safetensors");
  test::SafetensorsWriter w;
  w.tensor("a", "F32", {2, 3}, std::string(24, 'a'));
  w.tensor("b.weight", "BF16", {4}, std::string(8, 'b'));
  w.tensor("c", "F16", {1, 1, 2}, std::string(4, 'c'));
  w.tensor("none", "U8", {0}, "");
  fuzz(w.bytes(), 2, 4096, [&](const std::string& bytes) {
    target.write(bytes);
    look_at(open_safetensors(target.path()));
  });
}

TEST(LoaderFuzz, SafetensorsIndex) {
  const TempDir dir;
  test::SafetensorsWriter a;
  a.tensor("a", "F32", {1}, raw(1.0f));
  dir.write("s1.safetensors", a.bytes());
  test::SafetensorsWriter b;
  b.tensor("b", "F32", {1}, raw(1.0f));
  dir.write("s2.safetensors", b.bytes());
  Target target(dir, "index.json");
  fuzz(R"({"metadata":{"total_size":8},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})", 3, 4096,
       [&](const std::string& bytes) {
         target.write(bytes);
         look_at(open_safetensors_index(target.path()));
       });
}

TEST(LoaderFuzz, JsonPlace) {
  const std::string text =
      R"({"a": [1, -2.5e-3, NaN, -Infinity, 123456789012345678901234567890], "b\"\\\u00e9": {"c": null, "d": true},)"
      R"( "e": "text \ud83d\ude00", "f": [[], {}, [[["deep"]]]]})";
  fuzz(text, 4, 4096, [&](const std::string& bytes) {
    const JsonPlace json = JsonPlace::parse(bytes, "fuzz.json");
    if (json.is(JsonPlace::Kind::kObject)) {
      for (std::size_t i = 0; i < json.size(); ++i)
        ASSERT_FALSE(json.value_at(i).path().empty() && !json.key_at(i).empty());
    }
  });
}

TEST(LoaderFuzz, HuggingFaceConfig) {
  const TempDir dir;
  const TinyModel model({.type = "qwen3_5"});
  dir.write("model.safetensors", model.safetensors("model.language_model.").bytes());
  Target target(dir, "config.json");
  fuzz(model.config_json(), 5, 4096, [&](const std::string& bytes) {
    target.write(bytes);
    look_at(Checkpoint::open(dir.path()));
  });
}

TEST(LoaderFuzz, GenerationConfig) {
  const JsonPlace config = JsonPlace::parse(TinyModel({.type = "llama"}).config_json(), "config.json");
  fuzz(
      R"({"eos_token_id": [1, 2], "bos_token_id": 1, "pad_token_id": 0, "do_sample": true, "temperature": 0.6,)"
      R"( "top_k": 20, "top_p": 0.95, "min_p": 0.0, "repetition_penalty": 1.05})",
      6, 4096, [&](const std::string& bytes) {
        const JsonPlace generation = JsonPlace::parse(bytes, "generation_config.json");
        ModelConfig::from_hf(config, &generation);
      });
}

TEST(LoaderFuzz, GgufCheckpoint) {
  const TempDir dir;
  Target target(dir, "m.gguf");
  const TinyModel model({.type = "qwen3_5_text", .layers = 2, .linear = {true, false}});
  fuzz(model.gguf().bytes(), 7, 3000, [&](const std::string& bytes) {
    target.write(bytes);
    look_at(Checkpoint::open(target.path()));
  });
}

TEST(LoaderFuzz, HuggingFaceTensors) {
  const TempDir dir;
  const TinyModel model({.type = "llama", .layers = 1});
  dir.write("config.json", model.config_json());
  Target target(dir, "model.safetensors");
  fuzz(model.safetensors().bytes(), 8, 2000, [&](const std::string& bytes) {
    target.write(bytes);
    look_at(Checkpoint::open(dir.path()));
  });
}

}  // namespace
}  // namespace reprise::models
