// reprise_random_model: writes a Hugging Face folder or a GGUF file with random weights of a given shape.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/lab/random_model/write.h"

int main(int argc, char** argv) {
  using reprise::tools::RandomShape;
  CLI::App app{
      "Writes random weights: config.json and model.safetensors in bf16 or FP8, or with --gguf one file in "
      "any types"};
  std::string name = "qwen3_5-tiny";
  std::string folder;
  std::uint64_t seed = 1;
  app.add_option("--out", folder, "Folder to write to, made if need be; with --gguf a file")->required();
  bool gguf = false;
  std::string types = "Q4_K_M";
  std::size_t parts = 1;
  CLI::Option* gguf_option = app.add_flag("--gguf", gguf, "A GGUF file instead of a folder");
  app.add_option(
         "--types", types,
         "Of its tensors: a mix (Q4_K_M, Q5_K_M, Q4_K_S ...) or a type (BF16, Q8_0, Q6_K, IQ4_XS ...), and "
         "exceptions: Q4_K_M,ffn_down=Q8_0,token_embd=F16")
      ->needs(gguf_option)
      ->capture_default_str();
  app.add_option("--parts", parts, "Files that it is split into: NAME-00001-of-0000N.gguf")
      ->needs(gguf_option)
      ->check(CLI::Range(1, 99999));
  bool fp8 = false;
  app.add_flag("--fp8", fp8, "A folder whose layers' matrices are FP8 in tiles of 128 x 128")
      ->excludes(gguf_option);
  bool hollow = false;
  app.add_flag("--hollow", hollow, "Weights of zeros that take no room on the disk: for `reprise inspect`")
      ->needs(gguf_option);
  app.add_option("--seed", seed, "The weights are a function of it")->capture_default_str();
  std::vector<std::string> names;
  for (const auto& named : reprise::tools::named_shapes()) names.emplace_back(named.name);
  app.add_option("--shape", name, "A named shape")->check(CLI::IsMember(names))->capture_default_str();

  struct Field {
    const char* flag;
    std::size_t RandomShape::*member;
    std::size_t value = 0;
    CLI::Option* option = nullptr;
  };
  Field fields[] = {{"--layers", &RandomShape::layers},
                    {"--hidden", &RandomShape::hidden},
                    {"--intermediate", &RandomShape::intermediate},
                    {"--heads", &RandomShape::heads},
                    {"--experts", &RandomShape::experts},
                    {"--experts-per-token", &RandomShape::experts_per_token},
                    {"--expert-intermediate", &RandomShape::expert_intermediate},
                    {"--shared-intermediate", &RandomShape::shared_intermediate},
                    {"--kv-heads", &RandomShape::kv_heads},
                    {"--head-dim", &RandomShape::head_dim},
                    {"--vocab", &RandomShape::vocab},
                    {"--context", &RandomShape::context},
                    {"--attention-interval", &RandomShape::attention_interval},
                    {"--key-heads", &RandomShape::key_heads},
                    {"--value-heads", &RandomShape::value_heads},
                    {"--key-head-dim", &RandomShape::key_head_dim},
                    {"--value-head-dim", &RandomShape::value_head_dim},
                    {"--conv-kernel", &RandomShape::conv_kernel}};
  for (Field& field : fields) {
    field.option = app.add_option(field.flag, field.value, "Instead of the named shape's")
                       ->check(CLI::Range(1, 1 << 26));
  }
  std::string type;
  bool tied = false;
  CLI::Option* type_option =
      app.add_option("--type", type, "Instead of the named shape's")
          ->check(CLI::IsMember({"llama", "qwen3", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"}));
  CLI::Option* tied_option =
      app.add_flag("--tied,!--untied", tied, "Whether the embedding is the head as well");
  CLI11_PARSE(app, argc, argv);

  RandomShape shape = *reprise::tools::shape_named(name);
  for (const Field& field : fields) {
    if (field.option->count() > 0) shape.*field.member = field.value;
  }
  if (type_option->count() > 0) shape.type = type;
  if (tied_option->count() > 0) shape.tied = tied;
  try {
    const std::uint64_t bytes =
        gguf ? reprise::tools::write_random_gguf(shape, reprise::tools::GgufTypes(types), seed, folder, parts,
                                                 hollow)
             : reprise::tools::write_random_model(
                   shape, seed, folder,
                   fp8 ? reprise::tools::FolderType::kFp8 : reprise::tools::FolderType::kBf16);
    std::fprintf(stderr, "reprise_random_model: %.3f GB of weights in %s\n", static_cast<double>(bytes) / 1e9,
                 folder.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise_random_model: %s\n", error.what());
    return 1;
  }
}
