// reprise_random_model: writes a Hugging Face folder with random weights of a given shape.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/random_model/write.h"

int main(int argc, char** argv) {
  using reprise::tools::RandomShape;
  CLI::App app{"Writes config.json and model.safetensors with random bf16 weights"};
  std::string name = "qwen3_5-tiny";
  std::string folder;
  std::uint64_t seed = 1;
  app.add_option("--out", folder, "Folder to write to, made if need be")->required();
  app.add_option("--seed", seed, "The weights are a function of it")->capture_default_str();
  std::vector<std::string> names;
  for (const auto& named : reprise::tools::named_shapes()) names.emplace_back(named.name);
  app.add_option("--shape", name, "A named shape")->check(CLI::IsMember(names))->capture_default_str();

  // Flags that change a field of the shape.
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
  CLI::Option* type_option = app.add_option("--type", type, "Instead of the named shape's")
                                 ->check(CLI::IsMember({"llama", "qwen3", "qwen3_5_text"}));
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
    const std::uint64_t bytes = reprise::tools::write_random_model(shape, seed, folder);
    std::fprintf(stderr, "reprise_random_model: %.3f GB of weights in %s\n", static_cast<double>(bytes) / 1e9,
                 folder.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise_random_model: %s\n", error.what());
    return 1;
  }
}
