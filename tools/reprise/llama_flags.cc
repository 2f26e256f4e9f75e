#include "tools/reprise/llama_flags.h"

#include <string_view>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {
namespace {

struct SameFlag {
  std::string_view theirs;
  const char* ours;
};
// CLI11 parses -np as -n p; other single letters are our own options.
constexpr SameFlag kSame[] = {
    {"-np", "--parallel"}, {"-ncmoe", "--cpu-experts"}, {"--n-cpu-moe", "--cpu-experts"}};

struct OtherFlag {
  std::string_view theirs;
  const char* answer;
};
constexpr const char* kLayers =
    "layers are not divided between GPU and CPU here; write --device cuda:0 to compute all on the GPU, "
    "--device cpu "
    "for none, or --cpu-experts N to keep the experts of N layers on the CPU";
constexpr const char* kAlways = "is always on; leave it out";
constexpr const char* kChosen = "is chosen by the server; leave it out";
constexpr const char* kFromHub = "write --model hf:OWNER/MODEL, or --model hf:OWNER/MODEL:FILE";
constexpr const char* kKvType = "write --kv-dtype bf16, int8 or int4, which sets keys and values alike";
constexpr OtherFlag kOther[] = {
    {"-ngl", kLayers},
    {"--n-gpu-layers", kLayers},
    {"--gpu-layers", kLayers},
    {"-b", kChosen},
    {"--batch-size", kChosen},
    {"-ub", kChosen},
    {"--ubatch-size", kChosen},
    {"-fa", kAlways},
    {"--flash-attn", kAlways},
    {"-cb", kAlways},
    {"--cont-batching", kAlways},
    {"--jinja", kAlways},
    {"--metrics", kAlways},
    {"--embeddings", kAlways},
    {"--mlock", kChosen},
    {"--no-mmap", kChosen},
    {"-hf", kFromHub},
    {"--hf-repo", kFromHub},
    {"-ctk", kKvType},
    {"--cache-type-k", kKvType},
    {"-ctv", kKvType},
    {"--cache-type-v", kKvType},
    {"-cmoe", "write --cpu-experts all"},
    {"--cpu-moe", "write --cpu-experts all"},
    {"--lora", "write [[models.adapters]] with name and path into the file of --config"}};

}  // namespace

std::vector<std::string> with_own_flags(const std::vector<std::string>& arguments) {
  std::vector<std::string> own;
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    for (const OtherFlag& other : kOther) {
      if (name == other.theirs) throw UsageError(name + ": " + other.answer);
    }
    std::string text = argument;
    for (const SameFlag& same : kSame) {
      if (name == same.theirs) text = same.ours + argument.substr(name.size());
    }
    own.push_back(std::move(text));
  }
  return own;
}

}  // namespace reprise::tools
