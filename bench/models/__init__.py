"""Models at their published size beside torch, `torch.compile`, ONNX Runtime and OpenVINO: latency, memory, compilation, step by step."""
