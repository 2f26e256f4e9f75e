#include "models/arch/families.h"

namespace reprise::models {

std::span<const Family> families() {
  static const Family kFamilies[] = {
      llama_family(),            //
      qwen3_family(),            //
      qwen3_5_family(),          //
      qwen3_5_moe_family(),      //
      qwen3_next_family(),       //
      mamba_family(),            //
      falcon_mamba_family(),     //
      jamba_family(),            //
      recurrent_gemma_family(),  //
      rwkv7_family(),            //
      mamba2_family(),           //
      falcon_h1_family(),        //
      nemotron_h_family(),       //
      kimi_linear_family(),      //
      longcat_flash_family(),    //
  };
  return kFamilies;
}

}  // namespace reprise::models
