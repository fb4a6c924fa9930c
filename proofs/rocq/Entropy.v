(** Weak sources: how much entropy a private and accurate mechanism needs.

    A mechanism is a function of the data and of coins. An opponent may make the coins uniform on any set of K of all
    N outcomes: sources of min-entropy log2 K. *)

From Coq Require Import Reals Lra Lia List Bool.
From Sfumato Require Import Dist Privacy.
Import ListNotations.
Open Scope R_scope.

Definition ind (b : bool) : R := if b then 1 else 0.

(** ** A cut that separates half of all edges *)

Section Cut.
Context {A : Type} (EA : decidable_equality A) (edges : list (A * A)).

Definition among (vs : list A) (e : A * A) : bool :=
  (if in_dec EA (fst e) vs then true else false) && (if in_dec EA (snd e) vs then true else false) &&
  (if EA (fst e) (snd e) then false else true).

Definition separates (T : A -> bool) (e : A * A) : bool := xorb (T (fst e)) (T (snd e)).

Lemma half_cut vs : NoDup vs -> exists T,
  sum (fun e => ind (among vs e)) edges <= 2 * sum (fun e => ind (among vs e && separates T e)) edges.
Proof.
  induction 1 as [|v vs Hv N (T & IH)].
  - exists (fun _ => true). rewrite !sum_zero; [lra| |]; intros (a, b) _; unfold among; simpl; reflexivity.
  - set (T1 := fun x => if EA x v then true else T x). set (T0 := fun x => if EA x v then false else T x).
    assert (P : forall e, ind (among (v :: vs) e) + (2 * ind (among vs e && separates T e) - ind (among vs e))
      <= ind (among (v :: vs) e && separates T1 e) + ind (among (v :: vs) e && separates T0 e)).
    { intros (a, b). unfold among, separates, T1, T0. cbn [fst snd].
      destruct (in_dec EA a (v :: vs)) as [Ia|Ia], (in_dec EA b (v :: vs)) as [Ib|Ib], (EA a b) as [E|E],
        (in_dec EA a vs) as [Ja|Ja], (in_dec EA b vs) as [Jb|Jb], (EA a v) as [Ea|Ea], (EA b v) as [Eb|Eb];
        try subst a; try subst b; try contradiction; try (simpl in Ia; tauto); try (simpl in Ib; tauto); try congruence;
        try (destruct Ia as [<-|Ia]; try congruence; contradiction); try (destruct Ib as [<-|Ib]; try congruence; contradiction);
        simpl; try destruct (T a); try destruct (T b); try destruct (T v); simpl; lra. }
    assert (S : sum (fun e => ind (among (v :: vs) e)) edges <=
      sum (fun e => ind (among (v :: vs) e && separates T1 e)) edges + sum (fun e => ind (among (v :: vs) e && separates T0 e)) edges).
    { rewrite <- sum_plus.
      apply Rle_trans with (sum (fun e => ind (among (v :: vs) e) + (2 * ind (among vs e && separates T e) - ind (among vs e))) edges).
      - rewrite sum_plus. unfold Rminus at 1. rewrite sum_plus, sum_scale.
        rewrite (sum_ext (fun a => - ind (among vs a)) (fun a => -1 * ind (among vs a))), sum_scale by (intros; ring). lra.
      - apply sum_le. auto. }
    destruct (Rle_dec (sum (fun e => ind (among (v :: vs) e && separates T0 e)) edges)
                      (sum (fun e => ind (among (v :: vs) e && separates T1 e)) edges)); [exists T1|exists T0]; lra.
Qed.
End Cut.

(** ** Neighbours give the same answer on most coins *)

Lemma sum_ind {C} (p : C -> bool) l : sum (fun c => ind (p c)) l = INR (length (filter p l)).
Proof.
  induction l as [|c l IH]; [reflexivity|]. rewrite sum_cons, IH. cbn [filter].
  destruct (p c); cbn [length]; [rewrite S_INR|]; unfold ind; lra.
Qed.

Lemma filter_shorter {C} (p : C -> bool) l : (length (filter p l) <= length l)%nat.
Proof. induction l as [|c l IH]; simpl; auto. destruct (p c); simpl; lia. Qed.

Lemma NoDup_firstn {C} k (l : list C) : NoDup l -> NoDup (firstn k l).
Proof.
  intros N. revert k. induction N as [|c l H N IH]; intros [|k]; simpl; constructor; auto.
  intros I. apply H. rewrite <- (firstn_skipn k l). apply in_app_iff. auto.
Qed.

Lemma incl_firstn {C} k (l : list C) : incl (firstn k l) l.
Proof. intros c H. rewrite <- (firstn_skipn k l). apply in_app_iff. auto. Qed.

Section Agreement.
Context {C A : Type} (EA : decidable_equality A).
Variables (coins : list C) (K : nat) (r : R).
Hypotheses (distinct : NoDup coins) (K_pos : (0 < K)%nat) (K_half : (2 * K <= length coins)%nat) (r_ge : 1 <= r).

(** Private on every source that is uniform on K of the coins. *)
Definition weakly_private (f g : C -> A) : Prop := forall (S : list C) (T : A -> bool),
  NoDup S -> incl S coins -> length S = K ->
  sum (fun c => ind (T (f c))) S <= r * sum (fun c => ind (T (g c))) S.

Lemma one_sided_agreement f g (T : A -> bool) :
  let only := filter (fun c => T (f c) && negb (T (g c))) coins in
  let reverse := filter (fun c => negb (T (f c)) && T (g c)) coins in
  weakly_private f g -> (length reverse <= length only)%nat -> INR (length only) <= (r - 1) * INR K.
Proof.
  intros only reverse W L.
  assert (Kp : 0 < INR K) by (apply lt_0_INR; auto).
  assert (No : NoDup only) by (apply NoDup_filter; auto).
  assert (Fo : forall c, In c only -> ind (T (f c)) = 1 /\ ind (T (g c)) = 0).
  { intros c H. apply filter_In in H as [_ H]. destruct (T (f c)), (T (g c)); simpl in H; try discriminate. auto. }
  assert (Io : incl only coins) by apply incl_filter.
  destruct (le_lt_dec K (length only)) as [G|G].
  - exfalso. specialize (W (firstn K only) T (NoDup_firstn _ _ No)).
    rewrite (sum_ext (fun c => ind (T (f c))) (fun _ => 1)), (sum_ext (fun c => ind (T (g c))) (fun _ => 0)), !sum_const in W.
    + rewrite firstn_length, Nat.min_l in W by auto.
      assert (INR K * 1 <= r * (INR K * 0)); [|lra]. apply W; auto.
      intros c H. apply Io. apply (incl_firstn K). exact H.
    + intros c H. apply Fo. apply (incl_firstn K). exact H.
    + intros c H. apply Fo. apply (incl_firstn K). exact H.
  - set (rest := filter (fun c => Bool.eqb (T (f c)) (T (g c))) coins).
    assert (Lr : (length only + length reverse + length rest = length coins)%nat).
    { unfold only, reverse, rest. clear. induction coins as [|c l IH]; simpl; auto.
      destruct (T (f c)), (T (g c)); simpl; lia. }
    set (more := firstn (K - length only) rest).
    assert (Lm : length more = (K - length only)%nat) by (unfold more; rewrite firstn_length; lia).
    assert (Fm : forall c, In c more -> ind (T (f c)) = ind (T (g c))).
    { intros c H. apply (incl_firstn _ rest) in H. apply filter_In in H as [_ H]. apply eqb_prop in H. rewrite H. reflexivity. }
    assert (Nm : NoDup (only ++ more)).
    { assert (Nr : NoDup more) by (apply NoDup_firstn, NoDup_filter; auto).
      assert (Di : forall c, In c only -> ~ In c more).
      { intros c H H'. specialize (Fm c H'). destruct (Fo c H). lra. }
      clear - No Nr Di. clearbody more. induction No as [|c l H N IH]; simpl; auto. constructor.
      - rewrite in_app_iff. intros [X|X]; [contradiction|]. apply (Di c); simpl; auto.
      - apply IH. intros; apply Di; simpl; auto. }
    specialize (W (only ++ more) T Nm). rewrite !sum_app in W.
    rewrite (sum_ext (fun c => ind (T (f c))) (fun _ => 1) only) in W by (intros; apply Fo; auto).
    rewrite (sum_ext (fun c => ind (T (g c))) (fun _ => 0) only) in W by (intros; apply Fo; auto).
    rewrite (sum_ext (fun c => ind (T (f c))) (fun c => ind (T (g c))) more Fm), !sum_const in W.
    assert (X : sum (fun c => ind (T (g c))) more <= INR K).
    { rewrite sum_ind. apply le_INR. apply Nat.le_trans with (length more); [apply filter_shorter|lia]. }
    assert (INR (length only) * 1 + sum (fun c => ind (T (g c))) more <= r * (INR (length only) * 0 + sum (fun c => ind (T (g c))) more)).
    { apply W; [|rewrite app_length; lia]. intros c H. apply in_app_iff in H as [H|H]; auto.
      apply (incl_firstn _ rest) in H. apply incl_filter in H. exact H. }
    nra.
Qed.

Definition disagree (f g : C -> A) : R := sum (fun c => ind (if EA (f c) (g c) then false else true)) coins.

(** Theorem. Neighbours disagree on at most 4 (r - 1) K coins. *)
Theorem agreement f g : weakly_private f g -> weakly_private g f -> disagree f g <= 4 * ((r - 1) * INR K).
Proof.
  intros W W'. set (edges := map (fun c => (f c, g c)) coins).
  set (vs := nodup EA (map f coins ++ map g coins)).
  destruct (half_cut EA edges vs (NoDup_nodup _ _)) as (T & H).
  unfold edges in H. rewrite !sum_map in H.
  assert (E1 : sum (fun c => ind (among EA vs (f c, g c))) coins = disagree f g).
  { unfold disagree. apply sum_ext. intros c Hc. unfold among. cbn [fst snd].
    destruct (in_dec EA (f c) vs) as [|Q]; [|exfalso; apply Q, nodup_In, in_app_iff; left; apply in_map; auto].
    destruct (in_dec EA (g c) vs) as [|Q]; [|exfalso; apply Q, nodup_In, in_app_iff; right; apply in_map; auto].
    reflexivity. }
  rewrite E1 in H.
  set (a := length (filter (fun c => T (f c) && negb (T (g c))) coins)).
  set (b := length (filter (fun c => negb (T (f c)) && T (g c)) coins)).
  assert (E2 : sum (fun c => ind (among EA vs (f c, g c) && separates T (f c, g c))) coins <= INR a + INR b).
  { unfold a, b. rewrite <- !sum_ind, <- sum_plus. apply sum_le. intros c _. unfold separates. cbn [fst snd].
    destruct (among EA vs (f c, g c)), (T (f c)), (T (g c)); unfold ind; simpl; lra. }
  destruct (le_lt_dec b a) as [L|L].
  - pose proof (one_sided_agreement f g T W L) as X. fold a in X. apply le_INR in L. lra.
  - assert (Sw : filter (fun c => negb (T (g c)) && T (f c)) coins = filter (fun c => T (f c) && negb (T (g c))) coins)
      by (apply filter_ext; intros c; apply andb_comm).
    assert (Sw' : filter (fun c => T (g c) && negb (T (f c))) coins = filter (fun c => negb (T (f c)) && T (g c)) coins)
      by (apply filter_ext; intros c; apply andb_comm).
    pose proof (one_sided_agreement g f T W') as X. cbv zeta in X. rewrite Sw, Sw' in X. fold a b in X.
    specialize (X (Nat.lt_le_incl _ _ L)). apply lt_INR in L. lra.
Qed.

(** A chain of databases on which the query is 0, 1, …, s. *)
Variables (M : nat -> C -> A) (value : A -> R) (rho : R) (s : nat).
Hypothesis chain_private : forall i, (i < s)%nat -> weakly_private (M i) (M (S i)) /\ weakly_private (M (S i)) (M i).
Hypothesis accurate : forall i, (i <= s)%nat -> sum (fun c => Rabs (value (M i c) - INR i)) coins <= rho * INR (length coins).

Lemma chain_agreement i : (i <= s)%nat -> disagree (M 0) (M i) <= INR i * (4 * ((r - 1) * INR K)).
Proof.
  induction i as [|i IH]; intros L.
  - unfold disagree. rewrite sum_zero; [simpl; lra|]. intros c _. destruct (EA (M 0 c) (M 0 c)); [reflexivity|congruence].
  - rewrite S_INR. destruct (chain_private i L) as [W W']. pose proof (agreement _ _ W W').
    specialize (IH (Nat.lt_le_incl _ _ L)).
    assert (disagree (M 0) (M (S i)) <= disagree (M 0) (M i) + disagree (M i) (M (S i))); [|lra].
    unfold disagree. rewrite <- sum_plus. apply sum_le. intros c _.
    destruct (EA (M 0 c) (M (S i) c)), (EA (M 0 c) (M i c)), (EA (M i c) (M (S i) c)); unfold ind; try lra. congruence.
Qed.

(** Theorem. With s = 4 rho, the number of coins is at most 32 rho (r - 1) K. *)
Theorem entropy_needed : INR s = 4 * rho -> 0 < rho -> INR (length coins) <= 32 * rho * (r - 1) * INR K.
Proof.
  intros E P. set (N := INR (length coins)).
  pose proof (chain_agreement s (le_n s)) as D.
  pose proof (accurate 0 ltac:(lia)) as A0. pose proof (accurate s (le_n s)) as As. simpl INR in A0. fold N in A0, As.
  assert (B : INR s * (N - disagree (M 0) (M s)) <= 2 * rho * N).
  { apply Rle_trans with (sum (fun c => Rabs (value (M 0%nat c) - 0) + Rabs (value (M s c) - INR s)) coins);
      [|rewrite sum_plus; lra].
    assert (E0 : INR s * (N - disagree (M 0%nat) (M s)) =
      sum (fun c => INR s * (1 + -1 * ind (if EA (M 0%nat c) (M s c) then false else true))) coins).
    { rewrite sum_scale, sum_plus, sum_scale, sum_const. unfold N, disagree. ring. }
    rewrite E0.
    apply sum_le. intros c _.
    pose proof (Rabs_pos (value (M 0%nat c) - 0)). pose proof (Rabs_pos (value (M s c) - INR s)).
    destruct (EA (M 0%nat c) (M s c)) as [Q|Q]; unfold ind; [|lra].
    rewrite Q. pose proof (Rle_abs (value (M s c) - 0)). pose proof (Rle_abs (- (value (M s c) - INR s))).
    rewrite Rabs_Ropp in *. lra. }
  rewrite E in *.
  assert (4 * rho * (N - 4 * rho * (4 * ((r - 1) * INR K))) <= 2 * rho * N).
  { apply Rle_trans with (2 := B). apply Rmult_le_compat_l; lra. }
  apply (Rmult_le_reg_l (2 * rho)); [lra|]. nra.
Qed.

(** Corollary. Coins of m bits and sources of min-entropy k: k >= m - log2(64 rho epsilon). *)
Theorem min_entropy_needed m k epsilon : length coins = (2 ^ m)%nat -> K = (2 ^ k)%nat -> r = exp epsilon -> 0 <= epsilon <= 1 / 2 ->
  INR s = 4 * rho -> 0 < rho -> INR (2 ^ m) <= 64 * rho * epsilon * INR (2 ^ k).
Proof.
  intros Em Ek Er He Es P. pose proof (entropy_needed Es P) as H. rewrite Em, Ek in H.
  apply Rle_trans with (1 := H).
  assert (X : r - 1 <= 2 * epsilon).
  { rewrite Er. pose proof (exp_ineq1_le (- epsilon)) as Y. rewrite exp_Ropp in Y. pose proof (exp_pos epsilon).
    assert (Z : (1 + - epsilon) * exp epsilon <= 1).
    { apply (Rmult_le_compat_r (exp epsilon)) in Y; [|lra]. rewrite Rinv_l in Y by lra. exact Y. }
    destruct (Rle_dec (exp epsilon) (1 + 2 * epsilon)) as [|Q]; [lra|]. exfalso. nra. }
  assert (0 <= INR (2 ^ k)) by apply pos_INR. 
  replace (64 * rho * epsilon * INR (2 ^ k)) with (32 * rho * (2 * epsilon) * INR (2 ^ k)) by ring.
  apply Rmult_le_compat_r; auto. apply Rmult_le_compat_l; lra.
Qed.
End Agreement.
