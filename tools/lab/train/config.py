"""The shape of the built-in model, as config.json has it."""

LAYERS = 8


def model_config(vocab, ids):
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "dtype": "bfloat16",
        "eos_token_id": ids["<|im_end|>"],
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 256,
        "initializer_range": 0.02,
        "intermediate_size": 448,
        "layer_types": ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(LAYERS)],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 32,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "linear_value_head_dim": 64,
        "max_position_embeddings": 4096,
        "model_type": "qwen3_5_text",
        "num_attention_heads": 4,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 2,
        "pad_token_id": ids["<|endoftext|>"],
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [4, 2, 2], "partial_rotary_factor": 0.25,
                            "rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": vocab,
    }


def generation_config(ids):
    return {"do_sample": False, "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "pad_token_id": ids["<|endoftext|>"]}
